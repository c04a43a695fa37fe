package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/service"
)

func newRecord() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Write or read one record of a custom table by hand",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRecordUpsert(), newRecordCreate(), newRecordPatch(), newRecordGet(), newRecordDelete())
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
	return cmd
}

// recordAnswer is what a write of a record tells.
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
	var call callFlags
	var body bodyFlags
	cmd.Args = cobra.MaximumNArgs(1)
	body.register(cmd)
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		record, data, err := recordOf(cmd, &body, args)
		if err != nil {
			return nil, "", err
		}
		if update && record.BusinessKey == "" {
			return nil, "", &usageError{errors.New("the body: businessKey is missing, which an upsert needs")}
		}
		ref, err := c.UpsertRecord(ctx, call.table, service.JSON(data), update)
		return recordAnswerOf(ref, record.BusinessKey, err)
	})
}

func newRecordPatch() *cobra.Command {
	var call callFlags
	var body bodyFlags
	cmd := &cobra.Command{
		Use:     "patch -c FILE --table TABLE KEY [JSON]",
		Short:   "Change what is named of the record with that business key",
		Example: `  feedsink record patch -c feedsink.yaml --table orders 4c1f0c1e '{"properties":{"status":"SENT"}}'`,
		Args:    cobra.RangeArgs(1, 2),
	}
	body.register(cmd)
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		record, data, err := recordOf(cmd, &body, args[1:])
		if err != nil {
			return nil, "", err
		}
		if record.BusinessKey != "" && record.BusinessKey != args[0] {
			return nil, "", &usageError{errors.New("the body: businessKey is another one than the argument")}
		}
		ref, err := c.UpdateRecord(ctx, call.table, args[0], service.JSON(data))
		return recordAnswerOf(ref, args[0], err)
	})
}

func newRecordGet() *cobra.Command {
	var call callFlags
	cmd := &cobra.Command{
		Use:     "get -c FILE --table TABLE KEY",
		Short:   "Show the record with that business key",
		Example: "  feedsink record get -c feedsink.yaml --table orders 4c1f0c1e -o json",
		Args:    cobra.ExactArgs(1),
	}
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		record, err := c.GetRecord(ctx, call.table, args[0])
		if err != nil {
			return nil, "", err
		}
		lines := [][]string{{"businessKey", oneLine(cmp.Or(record.BusinessKey, args[0]))}}
		for _, p := range record.Properties {
			lines = append(lines, []string{oneLine(p.Name), oneLine(string(p.Value))})
		}
		return record, aligned(lines), nil
	})
}

func newRecordDelete() *cobra.Command {
	var call callFlags
	cmd := &cobra.Command{
		Use:     "delete -c FILE --table TABLE KEY",
		Short:   "Delete the record with that business key",
		Example: "  feedsink record delete -c feedsink.yaml --table orders 4c1f0c1e",
		Args:    cobra.ExactArgs(1),
	}
	return call.command(cmd, func(ctx context.Context, c *service.Client, args []string) (any, string, error) {
		if err := c.DeleteRecord(ctx, call.table, args[0]); err != nil {
			return nil, "", err
		}
		return recordAnswer{args[0]}, "deleted", nil
	})
}

// recordInput is a record as it may be written: properties as the interface has
// them, a list of names and values, or as an event has them, an object.
type recordInput struct {
	BusinessKey string          `json:"businessKey"`
	Properties  json.RawMessage `json:"properties"`
}

// recordOf is the body of operations 4 and 5.
func recordOf(cmd *cobra.Command, body *bodyFlags, args []string) (record service.Record, data []byte, err error) {
	var in recordInput
	if err := body.read(cmd.InOrStdin(), args, &in); err != nil {
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
		return record, nil, &usageError{errors.New(`the body: properties must be an object such as {"status":"PAID"}, or a list of {"name": …, "value": …}`)}
	}
	data, err = json.Marshal(record)
	return record, data, err
}

func recordAnswerOf(ref service.RecordRef, known string, err error) (any, string, error) {
	if err != nil {
		return nil, "", err
	}
	answer := recordAnswer{cmp.Or(ref.BusinessKey(), known)}
	if answer.BusinessKey == "" {
		return answer, "done; the answer tells no business key", nil
	}
	return answer, answer.BusinessKey, nil
}
