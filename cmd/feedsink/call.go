package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
)

// callFlags are what every single call by hand needs: the service, the table,
// and the form of the answer.
type callFlags struct{ file, table, output string }

// command makes cmd one call, of one attempt, whose answer is printed.
func (f *callFlags) command(cmd *cobra.Command, call func(context.Context, *service.Client, []string) (answer any, text string, err error)) *cobra.Command {
	configFlag(cmd, &f.file)
	cmd.Flags().StringVarP(&f.table, "table", "t", "", "name of the table")
	outputFlag(cmd, &f.output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.table == "" {
			return &usageError{errors.New("--table: name the table")}
		}
		// A form that does not exist is refused before anything is sent.
		if err := printResult(io.Discard, f.output, nil, func() string { return "" }); err != nil {
			return err
		}
		client, err := serviceClient(f.file)
		if err != nil {
			return err
		}
		defer client.Close()
		answer, text, err := call(cmd.Context(), client, args)
		if err != nil {
			return withReason(err)
		}
		return printResult(cmd.OutOrStdout(), f.output, answer, func() string { return text })
	}
	return cmd
}

// serviceClient needs no more of the configuration than where the service is.
func serviceClient(file string) (*service.Client, error) {
	service, err := config.LoadService(file, os.LookupEnv)
	if err != nil {
		return nil, &usageError{err}
	}
	return build.NewService(*service)
}

// withReason adds the service's own words, which errors leave out because logs must
// not quote values. Here whoever reads them asked for the call.
func withReason(err error) error {
	e, ok := errors.AsType[*service.Error](err)
	if !ok || e.Reason() == "" || !e.Op().CarriesData() {
		return err
	}
	return fmt.Errorf("%w: %s", err, oneLine(e.Reason()))
}

// bodyFlags say where the body of a call comes from.
type bodyFlags struct{ file string }

func (f *bodyFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "read the JSON from this file, - for standard input")
}

// maxBody is more than any row of the service holds.
const maxBody = 16 << 20

// read takes the body from the argument, the file or standard input, and into is
// what it must be. Every error is one of usage.
func (f *bodyFlags) read(stdin io.Reader, args []string, into any) error {
	data, err := f.bytes(stdin, args)
	if err != nil {
		return &usageError{err}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if err == nil && d.More() {
		err = errors.New("there is something after the JSON")
	}
	if err != nil {
		return &usageError{fmt.Errorf("the body: %w", err)}
	}
	return nil
}

func (f *bodyFlags) bytes(stdin io.Reader, args []string) ([]byte, error) {
	switch {
	case len(args) > 0 && f.file != "":
		return nil, errors.New("the body is given twice: as an argument and with --file")
	case len(args) > 0:
		return []byte(args[0]), nil
	case f.file != "" && f.file != "-":
		file, err := os.Open(f.file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		stdin = file
	case f.file == "":
		return nil, errors.New("the body is missing: write JSON as the last argument, or --file FILE, - for standard input")
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("the body is longer than %d MiB", maxBody>>20)
	}
	return data, err
}
