package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
)

// sinkFlags say which running sink is asked, and how its answer is printed.
type sinkFlags struct{ server, file, tokenFile, caFile string }

const defaultServer = "http://127.0.0.1:8080"

// askSink makes cmd ask a running sink and print the answer.
func askSink(cmd *cobra.Command, ask func(ctx context.Context, c *admin.Client, args []string) (answer any, text string, err error)) *cobra.Command {
	var f sinkFlags
	cmd.Flags().StringVar(&f.server, "server", "", "the sink's admin server (default "+defaultServer+")")
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "take the admin server's address from this configuration file")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the sink's admin token (default: the configuration file's)")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "believe the certificates in this file instead of the system's (with -c the sink's own certificate, whatever host that names)")
	outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		server, client, err := f.client()
		if err != nil {
			return asUsage(err)
		}
		answer, text, err := ask(cmd.Context(), client, args)
		if err != nil {
			return asked(err, server)
		}
		return printResult(cmd, answer, text)
	}
	return cmd
}

// asked is explained, and knows what of the sink's answers the caller, or the sink's configuration,
// has to be corrected for: a mapping or level that is not there, a pause that cannot be, a file with mistakes.
func asked(err error, server string) error {
	if refusal, ok := errors.AsType[*admin.Refusal](err); ok && !refusal.Foreign && (refusal.Status == http.StatusBadRequest || refusal.Status == http.StatusNotFound) {
		return asUsage(err)
	}
	return explained(err, server)
}

// explained adds to a connection that cannot be made what may be done about it.
func explained(err error, server string) error {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w; the sink at %s is not called so in its certificate: use a name that is in it, or run the command where the sink's files are, with -c", err, server)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w; --ca-file names a file with the authority to believe, -c the configuration file of the sink on this machine", err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("%w; the server at %s does not speak TLS: write http://, or name another address", err, server)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("no sink answers at %s: %w; is it running there? --server, or -c with its configuration file, names another address", server, err)
	}
	return err
}

// client asks the admin server that --server or the configuration file names.
func (f *sinkFlags) client() (server string, c *admin.Client, err error) {
	cfg := &config.Admin{}
	switch {
	case f.file == "":
		server = cmp.Or(f.server, defaultServer)
	case f.server != "":
		return "", nil, errors.New("--server and -c both name the sink: give one of them")
	default:
		file, err := config.Read(f.file)
		if err != nil {
			return "", nil, err
		}
		if cfg, err = file.Admin(os.LookupEnv); err != nil {
			return "", nil, err
		}
	}
	if f.tokenFile != "" {
		if _, err := build.Reveal(config.SecretFile(f.tokenFile))(); err != nil {
			return "", nil, fmt.Errorf("--token-file: %w", err)
		}
		cfg.TokenFile = f.tokenFile
	}
	return sinkOf(server, *cfg, f.caFile)
}

// sinkOf asks the sink at server or, where that is "", the one of the configuration on this
// machine. Every error is one of usage.
func sinkOf(server string, cfg config.Admin, caFile string) (at string, c *admin.Client, err error) {
	if server == "" {
		if server, err = listenedOn(cfg); err != nil {
			return "", nil, asUsage(err)
		}
	}
	credentials := admin.Credentials{CAFile: caFile, CertFile: cfg.TLS.CertFile}
	if cfg.TokenFile != "" {
		credentials.Token = build.Reveal(config.SecretFile(cfg.TokenFile))
		if _, err := credentials.Token(); err != nil {
			return "", nil, usagef("admin.tokenFile: %w", err)
		}
	}
	if c, err = admin.NewClient(server, credentials); err != nil {
		return "", nil, usagef("--server: %w", err)
	}
	return admin.Redacted(server), c, nil
}

// listenedOn is where a server on this machine is reached that listens on
// host:port.
func listenedOn(cfg config.Admin) (string, error) {
	listen, scheme := cfg.Listen, "http://"
	if cfg.TLS.CertFile != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("admin.listen: %w", err)
	}
	if port == "0" {
		return "", fmt.Errorf("admin.listen: %s takes any free port; name the one the sink logged with --server", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + net.JoinHostPort(host, port), nil
}
