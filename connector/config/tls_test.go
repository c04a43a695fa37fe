package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pair writes a self-signed certificate and its key as NAME.pem and NAME.key.
func pair(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: cert}, name + ".key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificatesAreLookedAtAtStart(t *testing.T) {
	dir := t.TempDir()
	pair(t, dir, "mine")
	pair(t, dir, "other")
	for keys, want := range map[string]string{
		"caFile: ${DIR}/mine.pem": "",
		"caFile: ${DIR}/mine.pem, certFile: ${DIR}/mine.pem, keyFile: ${DIR}/mine.key": "",
		"caFile: ${DIR}/mine.key":                              "kafka.tls.caFile",
		"caFile: ${DIR}/none.pem":                              "kafka.tls.caFile",
		"certFile: ${DIR}/mine.pem, keyFile: ${DIR}/other.key": "kafka.tls.certFile",
		"certFile: ${DIR}/mine.pem, keyFile: ${DIR}":           "kafka.tls.keyFile",
		"keyFile: ${DIR}/mine.key":                             "kafka.tls.certFile",
	} {
		file := spoiled("brokers", "tls: {enabled: true, "+strings.ReplaceAll(keys, "${DIR}", dir)+"}\n  brokers")
		if want == "" {
			parse(t, file)
			continue
		}
		if got := problems(t, file); len(got) != 1 || got[0].Path != want {
			t.Errorf("%s: got %+v, want one problem of %s", keys, got, want)
		}
	}
}
