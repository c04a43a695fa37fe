package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector"
	"github.com/feedsink/feedsink/connector/admin"
	"github.com/feedsink/feedsink/connector/config"
)

func newImports() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "imports",
		Short: "Show a running sink's imports, fetch their files, and let a halted one go on",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImportsList(), newImportsShow(), newImportsFiles(), newImportsRelease())
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
	return cmd
}

func newImportsList() *cobra.Command {
	var sink sinkFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List each mapping's import, open file and slots",
	}
	sink.command(cmd, func(ctx context.Context, c *admin.Client) (any, func() string, error) {
		var list []connector.MappingImports
		err := c.Imports(ctx, &list)
		return list, func() string { return importsTable(list, time.Now()) }, err
	})
	return cmd
}

func newImportsShow() *cobra.Command {
	var sink sinkFlags
	var mapping string
	var reason bool
	cmd := &cobra.Command{
		Use:   "show --mapping NAME",
		Short: "Show all that is known of one mapping's import",
		Long: "show tells all that is known of one mapping's import. What the service said about a file that it did not load may\n" +
			"quote customers' values: it is shown with --show-reason only, and stands in no log.",
		Example: "  feedsink imports show -c feedsink.yaml --mapping customers --show-reason",
	}
	sink.command(cmd, func(ctx context.Context, c *admin.Client) (any, func() string, error) {
		var one shownImport
		err := c.Import(ctx, mapping, &one.MappingImports)
		if err == nil && reason {
			one.asked = true
			err = c.Reason(ctx, mapping, &one.Reason)
		}
		return one, func() string { return one.text(time.Now()) }, err
	})
	mappingFlag(cmd, &mapping)
	cmd.Flags().BoolVar(&reason, "show-reason", false, "show what the service said about an import that went wrong, which may be customers' data")
	return cmd
}

func newImportsRelease() *cobra.Command {
	var sink sinkFlags
	var mapping string
	cmd := &cobra.Command{
		Use:   "release --mapping NAME",
		Short: "Let a halted mapping go on, once the cause is gone",
		Long: "release lets a mapping go on that was halted because the service refused its file. The file kept in the\n" +
			"spool is sent again, with as many tries as at first; each takes one of the table's imports of the day.\n\n" +
			"It also lets a mapping go on of which nearly all records were refused alike (dlq.flood), in both lanes: the\n" +
			"records that wait are tried again and counted anew; of a file that is loaded, the rows in error become dead letters.\n\n" +
			"A mapping that was halted because output files do not name all rows in error has these files asked for once\n" +
			"more; nothing is sent. Rows in error that they still do not name are given up then: the import is confirmed, and\n" +
			"their number is in a dead letter and in feedsink_import_rows_unmatched_total.\n\n" +
			"A restart alone ends none of these halts. A partition that waits at one record, as there is no dead-letter topic,\n" +
			"is not released: set dlq.topic or fix the cause, then restart the sink.",
	}
	sink.command(cmd, func(ctx context.Context, c *admin.Client) (any, func() string, error) {
		var released connector.Released
		err := c.Release(ctx, mapping, &released)
		return released, func() string { return releasedText(released) }, err
	})
	mappingFlag(cmd, &mapping)
	return cmd
}

// mappingFlag adds --mapping, which must be given.
func mappingFlag(cmd *cobra.Command, mapping *string) {
	cmd.Flags().StringVar(mapping, "mapping", "", "name of the mapping")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *mapping == "" {
			return &usageError{errors.New("--mapping: name the mapping; feedsink imports list shows them")}
		}
		return nil
	}
}

// sinkFlags say which running sink is meant, and how its answer is printed.
type sinkFlags struct{ server, file, output, tokenFile, caFile string }

const defaultServer = "http://127.0.0.1:8080"

// command makes cmd ask a running sink and print the answer.
func (f *sinkFlags) command(cmd *cobra.Command, ask func(context.Context, *admin.Client) (answer any, text func() string, err error)) {
	cmd.Flags().StringVar(&f.server, "server", "", "the sink's admin server (default "+defaultServer+")")
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "take the admin server's address from this configuration file")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the sink's admin token (default: the configuration file's)")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "believe the certificates in this file instead of the system's (with -c the sink's own certificate, whatever host that names)")
	outputFlag(cmd, &f.output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// A form that does not exist is refused before anything is released.
		if err := printResult(io.Discard, f.output, nil, func() string { return "" }); err != nil {
			return err
		}
		server, credentials, err := f.address()
		if err != nil {
			return &usageError{err}
		}
		client, err := admin.NewClient(server, credentials)
		if err != nil {
			return &usageError{fmt.Errorf("--server: %w", err)}
		}
		answer, text, err := ask(cmd.Context(), client)
		if err != nil {
			return explained(err, server)
		}
		return printResult(cmd.OutOrStdout(), f.output, answer, text)
	}
}

// explained adds to a connection that cannot be made what may be done about it.
func explained(err error, server string) error {
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return fmt.Errorf("%w; the sink at %s is not called so in its certificate: use a name that is in it, or run the command where the sink's files are, with -c", err, server)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w; --ca-file names a file with the authority to believe, -c the configuration file of the sink on this machine", err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return fmt.Errorf("no sink answers at %s: %w; is it running there? --server, or -c with its configuration file, names another address", server, err)
	}
	return err
}

// address is the admin server's, from --server or the configuration file, and
// what it wants to see.
func (f *sinkFlags) address() (server string, c admin.Credentials, err error) {
	tokenFile, certFile := f.tokenFile, ""
	server = cmp.Or(f.server, defaultServer)
	if f.file != "" {
		if f.server != "" {
			return "", c, errors.New("--server and -c both name the sink: give one of them")
		}
		cfg, err := loadConfig(f.file)
		if err != nil {
			return "", c, err
		}
		if server, err = listenedOn(cfg.Admin); err != nil {
			return "", c, err
		}
		tokenFile, certFile = cmp.Or(tokenFile, cfg.Admin.TokenFile), cfg.Admin.TLS.CertFile
	}
	c, err = credentials(tokenFile, certFile)
	c.CAFile = f.caFile
	return server, c, err
}

// credentials are what a sink wants to see and shows, from files; "" names none.
func credentials(tokenFile, certFile string) (admin.Credentials, error) {
	c := admin.Credentials{CertFile: certFile}
	if tokenFile == "" {
		return c, nil
	}
	read := config.SecretFile(tokenFile)
	c.Token = func() (string, error) {
		token, err := read()
		return token.Reveal(), err
	}
	if _, err := c.Token(); err != nil {
		return c, fmt.Errorf("--token-file: %w", err)
	}
	return c, nil
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
