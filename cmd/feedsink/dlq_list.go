package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/ops"
)

func newDLQList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list -c FILE",
		Short: "List dead letters with their reasons, or count them",
		Long: "list reads the dead-letter topic up to its end and shows where each letter's record came from and why it\n" +
			"could not be processed. What may be customers' data, keys, values and the service's own words about them, it\n" +
			"shows with --show-value only. Letters that were replayed are left out unless --all is given. It changes nothing.",
		Example: "  feedsink dlq list -c feedsink.yaml --by mapping,reason\n" +
			"  feedsink dlq list -c feedsink.yaml --reason conflict --since 24h --show-value",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	configFlag(cmd, &f.file)
	outputFlag(cmd, &f.output)
	f.filter.register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.by, "by", nil, "count instead of listing, by one or more of: "+outcomeWords())
	flags.IntVar(&f.limit, "limit", 100, "list so many letters at most; 0: all")
	flags.BoolVar(&f.all, "all", false, "also letters that were replayed")
	flags.BoolVar(&f.values, "show-value", false, "also keys, values and what the service said: customers' data")
	return cmd
}

type listFlags struct {
	file, output string
	by           []string
	limit        int
	all, values  bool
	filter       filterFlags
}

func (f *listFlags) run(cmd *cobra.Command) error {
	match, err := f.filter.filter(time.Now())
	if err != nil {
		return err
	}
	if f.limit < 0 {
		return &usageError{fmt.Errorf("--limit: must not be negative, is %d", f.limit)}
	}
	// A form or word that does not exist is refused before anything is read.
	if err := printResult(io.Discard, f.output, nil, func() string { return "" }); err != nil {
		return err
	}
	counts, err := newDeadLetterCounts(f.by)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(f.file)
	if err != nil {
		return err
	}
	log, err := (&logFlags{level: "warn"}).open(cmd.ErrOrStderr(), cfg.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	list := &deadLetterList{to: cmd.OutOrStdout(), json: f.output == "json", limit: f.limit, values: f.values}
	foreign, err := ops.DeadLetters(cmd.Context(), cfg, log.Logger, func(l *deadletter.Received, state ops.DeadLetterState) error {
		if state == ops.DeadLetterDone && !f.all || !match.Match(l) {
			return nil
		}
		one := entryOf(l, state)
		if !f.values {
			one.Message = l.Plain()
		}
		if counts != nil {
			counts.add(one)
			return nil
		}
		return list.add(one, l.Record)
	})
	switch {
	case errors.Is(err, ops.ErrNoDeadLetters):
		return &usageError{err}
	case err != nil:
		return err
	case counts != nil:
		groups := counts.groups()
		return printResult(cmd.OutOrStdout(), f.output, groups, func() string { return counts.text(groups) })
	}
	return list.end(foreign)
}

// deadLetterEntry is a dead letter as it is listed. Its fields are named as the columns
// and the words of --by are.
type deadLetterEntry struct {
	Letter    string              `json:"letter"`          // partition:offset in the dead-letter topic
	Topic     string              `json:"topic,omitempty"` // where its record came from, as are Partition and Offset; "": a row that matches no record
	Partition *int32              `json:"partition,omitempty"`
	Offset    *int64              `json:"offset,omitempty"`
	Time      time.Time           `json:"time"` // of the record
	Mapping   string              `json:"mapping,omitempty"`
	Table     string              `json:"table,omitempty"`
	Lane      string              `json:"lane,omitempty"`
	Stage     string              `json:"stage"`
	Reason    string              `json:"reason"`
	Status    int                 `json:"status,omitempty"` // HTTP
	Execution string              `json:"execution,omitempty"`
	Attempts  int                 `json:"attempts"` // replays after which it was here again
	State     ops.DeadLetterState `json:"state"`
	Message   string              `json:"message"`
	// MayBeInTable: a create after a crash or a lost answer whose row cannot be told.
	MayBeInTable bool               `json:"mayBeInTable,omitempty"`
	Content      *deadLetterContent `json:"content,omitempty"`
}

// deadLetterContent is the record's own bytes: as text, or base64 where they are
// none. A value that is null stays so.
type deadLetterContent struct {
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
}

func entryOf(l *deadletter.Received, state ops.DeadLetterState) deadLetterEntry {
	one := deadLetterEntry{
		Letter: fmt.Sprintf("%d:%d", l.Partition, l.Offset), Topic: l.Record.Topic, Time: l.Record.Timestamp.UTC(),
		Mapping: l.Mapping, Table: l.Table, Lane: l.Lane, Stage: string(l.Stage), Reason: l.Code, Status: l.Status,
		Execution: l.Execution, Attempts: l.Attempts, State: state, Message: l.Message, MayBeInTable: l.MayBeInTable,
	}
	if !l.NoRecord() {
		one.Partition, one.Offset = &l.Record.Partition, &l.Record.Offset
	}
	return one
}

// record is where the dead letter's record came from; "none" for a row that matches no
// record.
func (l *deadLetterEntry) record() string {
	if l.Offset == nil {
		return "none"
	}
	return fmt.Sprintf("%s@%d", l.partition(), *l.Offset)
}

func (l *deadLetterEntry) partition() string {
	if l.Partition == nil {
		return "none"
	}
	return fmt.Sprintf("%s[%d]", l.Topic, *l.Partition)
}

// reason is the code, and sets dead letters apart whose records may be in the table.
func (l *deadLetterEntry) reason() string {
	if l.MayBeInTable {
		return l.Reason + " (may be in the table)"
	}
	return l.Reason
}

// deadLetterList prints dead letters as they come, so that any number needs little memory.
type deadLetterList struct {
	to     io.Writer
	json   bool
	limit  int // 0: none
	values bool
	count  int
	block  [][]string // lines not yet printed
	below  []string   // what stands below each of them
}

// blockLines are aligned with each other.
const blockLines = 1000

func (p *deadLetterList) add(one deadLetterEntry, r *deadletter.Record) error {
	if p.count++; p.limit > 0 && p.count > p.limit {
		return nil
	}
	if p.json {
		return p.addJSON(one, r)
	}
	if len(p.block) == 0 {
		p.block = append(p.block, []string{"LETTER", "RECORD", "TIME", "MAPPING", "REASON", "STATUS", "ATTEMPTS", "STATE", "MESSAGE"})
	}
	if p.values {
		p.below = append(p.below, "  key   "+shownBytes(r.Key)+"\n  value "+shownBytes(r.Value))
	}
	p.block = append(p.block, []string{
		one.Letter, one.record(), one.Time.Format(time.RFC3339),
		one.Mapping, one.reason(), number(one.Status), number(one.Attempts), string(one.State), oneLine(one.Message),
	})
	if len(p.block) > blockLines {
		return p.flush()
	}
	return nil
}

func (p *deadLetterList) addJSON(one deadLetterEntry, r *deadletter.Record) error {
	if p.values {
		one.Content = &deadLetterContent{Key: jsonBytes(r.Key), Value: jsonBytes(r.Value)}
	}
	text, err := json.MarshalIndent(one, "  ", "  ")
	if err != nil {
		return err
	}
	open := ",\n  "
	if p.count == 1 {
		open = "[\n  "
	}
	_, err = fmt.Fprintf(p.to, "%s%s", open, text)
	return err
}

func (p *deadLetterList) flush() error {
	if len(p.block) == 0 {
		return nil
	}
	lines := strings.Split(aligned(p.block), "\n")
	for i, text := range p.below {
		lines[i+1] += "\n" + text // after the header
	}
	p.block, p.below = nil, nil
	_, err := fmt.Fprintln(p.to, strings.Join(lines, "\n"))
	return err
}

func (p *deadLetterList) end(foreign int) error {
	if p.json {
		text := "\n]\n"
		if p.count == 0 {
			text = "[]\n"
		}
		_, err := io.WriteString(p.to, text)
		return err
	}
	if err := p.flush(); err != nil {
		return err
	}
	var notes []string
	switch {
	case p.count == 0:
		notes = append(notes, "No dead letters.")
	case p.limit > 0 && p.count > p.limit:
		notes = append(notes, fmt.Sprintf("… and %d more; --limit 0 lists all, --by mapping,reason counts them", p.count-p.limit))
	}
	if foreign > 0 {
		notes = append(notes, fmt.Sprintf("%d other records of the topic are no letters of this connector.", foreign))
	}
	if len(notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(p.to, strings.Join(notes, "\n"))
	return err
}

func jsonBytes(b []byte) json.RawMessage {
	var value any
	switch {
	case utf8.Valid(b) && b != nil:
		value = string(b)
	case b != nil:
		value = b // base64
	}
	text, _ := json.Marshal(value) // of a string or bytes it cannot fail
	return text
}
