package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/build"
	"github.com/feedsink/feedsink/connector/config"
	"github.com/feedsink/feedsink/connector/service"
	"github.com/feedsink/feedsink/connector/words"
)

// serviceCall makes cmd one call by hand, of one attempt, whose answer is printed.
func serviceCall(cmd *cobra.Command, call func(ctx context.Context, c *service.Client, table string, args []string) (answer any, text string, err error)) *cobra.Command {
	var table string
	configFlag(cmd)
	cmd.Flags().StringVarP(&table, "table", "t", "", "name of the table")
	outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if table == "" {
			return usagef("--table: name the table")
		}
		client, _, err := serviceClient(cmd)
		if err != nil {
			return err
		}
		defer client.Close()
		answer, text, err := call(cmd.Context(), client, table, args)
		if err != nil {
			return withReason(err)
		}
		return printResult(cmd, answer, text)
	}
	return cmd
}

// serviceClient needs no more of the configuration than where the service is.
func serviceClient(cmd *cobra.Command) (client *service.Client, file config.File, err error) {
	if file, err = readConfig(cmd); err != nil {
		return nil, file, err
	}
	at, err := file.Service(os.LookupEnv)
	if err != nil {
		return nil, file, asUsage(err)
	}
	client, err = build.NewService(*at)
	return client, file, err
}

// withReason adds the service's own words, which errors leave out because logs must
// not quote values. Here the reader made the call.
//
// An id or name that no address can hold is the caller's mistake.
func withReason(err error) error {
	if errors.Is(err, service.ErrNotAddressable) {
		return asUsage(err)
	}
	e, ok := errors.AsType[*service.Error](err)
	if !ok || e.Reason() == "" || !e.MayQuote() {
		return err
	}
	return fmt.Errorf("%w: %s", err, words.OneLine(e.Reason()))
}

// bodyFlag says where the body of a call comes from.
func bodyFlag(cmd *cobra.Command) {
	cmd.Flags().StringP("file", "f", "", "read the JSON from this file, - for standard input")
}

// maxBody is more than any row of the service holds.
const maxBody = 16 << 20

// readBody takes the body from the argument, the file or standard input, and into is
// what it must be. Every error is one of usage.
func readBody(ctx context.Context, cmd *cobra.Command, args []string, into any) error {
	data, err := bodyBytes(ctx, cmd, args)
	if err != nil {
		return asUsage(err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return usagef("the body: is empty; write JSON")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the JSON ends before it is complete")
	case err == nil && !ends(d):
		err = errors.New("there is something after the JSON")
	}
	if err != nil {
		return usagef("the body: %w", err)
	}
	return nil
}

// ends reports whether nothing but white space follows. More is no help: to it a } or ] ends
// what it stands in.
func ends(d *json.Decoder) bool {
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}

func bodyBytes(ctx context.Context, cmd *cobra.Command, args []string) ([]byte, error) {
	name, from := cmd.Flag("file").Value.String(), cmd.InOrStdin()
	switch {
	case len(args) > 0 && name != "":
		return nil, errors.New("the body is given twice: as an argument and with --file")
	case len(args) > 0:
		return []byte(args[0]), nil
	case name == "":
		return nil, errors.New("the body is missing: write JSON as the last argument, or --file FILE, - for standard input")
	case name != "-":
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	data, err := readAll(ctx, io.LimitReader(from, maxBody+1))
	if err == nil && len(data) > maxBody {
		err = fmt.Errorf("the body is longer than %d MiB", maxBody>>20)
	}
	return data, err
}

func newProfile() *cobra.Command {
	return newGroup("profile", "Write one profile by hand",
		newProfileUpsert(), newProfilePatch(), newProfileDelete())
}

type profileAnswer struct {
	ID   string `json:"id"` // the service's, "" if it did not tell
	Href string `json:"href,omitempty"`
}

func newProfileUpsert() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upsert -c FILE --table TABLE [JSON]",
		Short: "Create a profile, or replace the one its unique keys match",
		Long: "upsert creates a profile. Where the unique keys of the body match one, it replaces that whole: what the body\n" +
			"does not name is gone. It prints the service's id of the profile.",
		Example: `  feedsink profile upsert -c feedsink.yaml --table customers '{"attributes":{"customerNumber":"C1","emailAddress":"a@example.com"}}'` + "\n" +
			"  feedsink profile upsert -c feedsink.yaml --table customers --file profile.json -o json",
		Args: cobra.MaximumNArgs(1),
	}
	bodyFlag(cmd)
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		data, err := profileInput(ctx, cmd, args)
		if err != nil {
			return nil, "", err
		}
		ref, err := c.UpsertProfile(ctx, table, service.JSON(data))
		return answerOf(ref, "", err)
	})
}

func newProfilePatch() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "patch -c FILE --table TABLE ID [JSON]",
		Short:   "Change what is named of the profile with the service's id",
		Example: `  feedsink profile patch -c feedsink.yaml --table customers 4711 '{"subscriptions":{"newsletter":false}}'`,
		Args:    cobra.RangeArgs(1, 2),
	}
	bodyFlag(cmd)
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		data, err := profileInput(ctx, cmd, args[1:])
		if err != nil {
			return nil, "", err
		}
		ref, err := c.PatchProfile(ctx, table, args[0], service.JSON(data))
		return answerOf(ref, args[0], err)
	})
}

func newProfileDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete -c FILE --table TABLE ID",
		Short:   "Delete the profile with the service's id, perhaps with what is linked to it",
		Example: "  feedsink profile delete -c feedsink.yaml --table customers 4711",
		Args:    cobra.ExactArgs(1),
	}
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		return profileAnswer{ID: args[0]}, "deleted", c.DeleteProfile(ctx, table, args[0])
	})
}

// profileInput is the body of operations 1 and 2, checked for its shape: the
// service alone knows the table's fields.
func profileInput(ctx context.Context, cmd *cobra.Command, args []string) ([]byte, error) {
	var profile service.Profile
	if err := readBody(ctx, cmd, args, &profile); err != nil {
		return nil, err
	}
	return json.Marshal(profile)
}

func answerOf(ref service.ProfileRef, known string, err error) (any, string, error) {
	id := cmp.Or(ref.ID(), known)
	return profileAnswer{ID: id, Href: ref.Href()}, cmp.Or(id, "done; the answer tells no id"), err
}

func newRecord() *cobra.Command {
	return newGroup("record", "Write or read one record of a custom table by hand",
		newRecordUpsert(), newRecordCreate(), newRecordPatch(), newRecordGet(), newRecordDelete())
}

type recordAnswer struct {
	BusinessKey string `json:"businessKey"` // "" if neither the body nor the answer tells
}

func newRecordUpsert() *cobra.Command {
	return newRecordPost(&cobra.Command{
		Use:     "upsert -c FILE --table TABLE [JSON]",
		Short:   "Create a record, or update the one with its business key",
		Example: `  feedsink record upsert -c feedsink.yaml --table orders '{"businessKey":"4c1f0c1e","properties":{"orderTotal":12.5,"status":"PAID"}}'`,
	}, true)
}

func newRecordCreate() *cobra.Command {
	return newRecordPost(&cobra.Command{
		Use:   "create -c FILE --table TABLE [JSON]",
		Short: "Create a record; without a business key the service chooses one",
		Example: `  feedsink record create -c feedsink.yaml --table orders '{"properties":{"status":"NEW"}}'` + "\n" +
			"  feedsink record create -c feedsink.yaml --table orders --file - < record.json",
	}, false)
}

// newRecordPost completes a command of operation 4.
func newRecordPost(cmd *cobra.Command, update bool) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	bodyFlag(cmd)
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		record, data, err := recordOf(ctx, cmd, args)
		if err != nil {
			return nil, "", err
		}
		if update && record.BusinessKey == "" {
			return nil, "", usagef("the body: businessKey is missing, which an upsert needs")
		}
		ref, err := c.UpsertRecord(ctx, table, service.JSON(data), update)
		if record.BusinessKey == "" {
			err = service.IfUnknown(err, "the record may have been created all the same, with a key of the service's: look at the table before you create it again")
		}
		return recordAnswerOf(ref, record.BusinessKey, err)
	})
}

func newRecordPatch() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "patch -c FILE --table TABLE KEY [JSON]",
		Short:   "Change what is named of the record with that business key",
		Example: `  feedsink record patch -c feedsink.yaml --table orders 4c1f0c1e '{"properties":{"status":"SENT"}}'`,
		Args:    cobra.RangeArgs(1, 2),
	}
	bodyFlag(cmd)
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		record, data, err := recordOf(ctx, cmd, args[1:])
		if err != nil {
			return nil, "", err
		}
		if record.BusinessKey != "" && record.BusinessKey != args[0] {
			return nil, "", usagef("the body: businessKey is another one than the argument")
		}
		ref, err := c.UpdateRecord(ctx, table, args[0], service.JSON(data))
		return recordAnswerOf(ref, args[0], err)
	})
}

func newRecordGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get -c FILE --table TABLE KEY",
		Short:   "Show the record with that business key",
		Example: "  feedsink record get -c feedsink.yaml --table orders 4c1f0c1e -o json",
		Args:    cobra.ExactArgs(1),
	}
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		record, err := c.GetRecord(ctx, table, args[0])
		if err != nil {
			return nil, "", err
		}
		lines := [][]string{{"businessKey", words.OneLine(cmp.Or(record.BusinessKey, args[0]))}}
		for _, p := range record.Properties {
			lines = append(lines, []string{words.OneLine(p.Name), words.OneLine(string(p.Value))})
		}
		return record, words.Table(lines).String(), nil
	})
}

func newRecordDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete -c FILE --table TABLE KEY",
		Short:   "Delete the record with that business key",
		Example: "  feedsink record delete -c feedsink.yaml --table orders 4c1f0c1e",
		Args:    cobra.ExactArgs(1),
	}
	return serviceCall(cmd, func(ctx context.Context, c *service.Client, table string, args []string) (any, string, error) {
		return recordAnswer{args[0]}, "deleted", c.DeleteRecord(ctx, table, args[0])
	})
}

// recordInput is a record as it may be written: properties as the interface has
// them, a list of names and values, or as an event has them, an object.
type recordInput struct {
	BusinessKey string          `json:"businessKey"`
	Properties  json.RawMessage `json:"properties"`
}

// recordOf is the body of operations 4 and 5.
func recordOf(ctx context.Context, cmd *cobra.Command, args []string) (record service.Record, data []byte, err error) {
	var in recordInput
	if err := readBody(ctx, cmd, args, &in); err != nil {
		return record, nil, err
	}
	record.BusinessKey = in.BusinessKey
	if bytes.HasPrefix(in.Properties, []byte("{")) {
		record.Properties = []service.Property{}
		var named map[string]json.RawMessage
		err = json.Unmarshal(in.Properties, &named)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			record.Properties = append(record.Properties, service.Property{Name: name, Value: named[name]})
		}
	} else {
		err = json.Unmarshal(in.Properties, &record.Properties)
	}
	if err != nil || record.Properties == nil {
		return record, nil, usagef(`the body: properties must be an object such as {"status":"PAID"}, or a list of {"name": …, "value": …}`)
	}
	data, err = json.Marshal(record)
	return record, data, err
}

func recordAnswerOf(ref service.RecordRef, known string, err error) (any, string, error) {
	key := cmp.Or(ref.BusinessKey(), known)
	return recordAnswer{key}, cmp.Or(key, "done; the answer tells no business key"), err
}
