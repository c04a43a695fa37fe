// Package certs makes authorities and certificates for tests, as PEM and as what
// package tls takes.
//
// It knows certificates and files. It knows nothing about who uses them.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates that nobody else believes.
type Authority struct {
	PEM  []byte
	Pool *x509.CertPool // of it alone

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key (PKCS #8), both as PEM.
type Pair struct{ Cert, Key []byte }

// NewAuthority makes one that is good for an hour.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	template := template(name)
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	a := &Authority{PEM: encode("CERTIFICATE", der), Pool: x509.NewCertPool(), key: key}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	return a
}

// Issue signs a certificate for both sides of a connection. Hosts are names or
// IP addresses.
func (a *Authority) Issue(tb testing.TB, name string, hosts ...string) Pair {
	tb.Helper()
	template := template(name)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}
}

// TLS is the pair for package tls.
func (p Pair) TLS(tb testing.TB) tls.Certificate {
	tb.Helper()
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		tb.Fatal(err)
	}
	return pair
}

// Write puts content into a file, in place of what was there at once: as a
// mounted secret changes, never half.
func Write(tb testing.TB, file string, content []byte) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		tb.Fatal(err)
	}
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
