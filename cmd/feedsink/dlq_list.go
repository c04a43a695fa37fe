package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/feedsink/feedsink/connector/deadletter"
	"github.com/feedsink/feedsink/connector/ops"
	"github.com/feedsink/feedsink/connector/replay"
	"github.com/feedsink/feedsink/router/problem"
)

func newDLQList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list -c FILE",
		Short: "List dead letters with their reasons, or count them",
		Long: "list reads the dead-letter topic up to its end and shows where each letter's record came from and why it\n" +
			"could not be processed. What may be customers' data, keys, values and the service's own words about them, it\n" +
			"shows with --show-value only. Letters that were replayed or discarded are left out unless --all is given. Under\n" +
			"ENDED BY it names the dlq command, with its flags, that ends a letter with the present configuration: what this\n" +
			"configuration would refuse again is replayed once the configuration is fixed, or discarded. It changes nothing.",
		Example: "  feedsink dlq list -c feedsink.yaml --by mapping,reason\n" +
			"  feedsink dlq list -c feedsink.yaml --reason conflict --since 24h --show-value",
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	configFlag(cmd)
	outputFlag(cmd)
	f.filter.register(cmd, "reason")
	flags := cmd.Flags()
	flags.StringSliceVar(&f.by, "by", nil, "count instead of listing, by one or more of: "+countNames())
	flags.IntVar(&f.limit, "limit", 100, "list so many letters at most; 0: all")
	flags.BoolVar(&f.all, "all", false, "also letters that were replayed or discarded")
	flags.BoolVar(&f.values, "show-value", false, "also keys, values and what the service said: customers' data")
	return cmd
}

type listFlags struct {
	by          []string
	limit       int
	all, values bool
	filter      filterFlags
}

func (f *listFlags) run(cmd *cobra.Command) error {
	match, err := f.filter.filter(time.Now())
	if err != nil {
		return err
	}
	if f.limit < 0 {
		return usagef("--limit: must not be negative, is %d", f.limit)
	}
	counts, err := newDeadLetterCounts(f.by)
	if err != nil {
		return err
	}
	cfg, log, err := (&logFlags{level: "warn"}).with(configFile(cmd), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer log.Close()
	bar := newReading(cmd)
	defer bar.end()
	list := &deadLetterList{to: bar.above(cmd.OutOrStdout()), json: wantsJSON(cmd), limit: f.limit, values: f.values}
	foreign, err := ops.DeadLetters(cmd.Context(), cfg, log.Logger, bar.at, func(l *ops.DeadLetter) error {
		if l.State.Ended() && !f.all || !match.Match(l.Received) {
			return nil
		}
		one := entryOf(l)
		if !f.values {
			one.Message = l.Plain()
		}
		leftOut := one.Message != l.Message
		if counts != nil {
			counts.leftOut = counts.leftOut || leftOut && slices.Contains(f.by, "message")
			counts.add(one)
			return nil
		}
		if list.full() {
			list.count++
			return nil
		}
		var err error
		if one.EndedBy, err = l.EndedBy(cmd.Context()); err != nil {
			return err
		}
		list.leftOut = list.leftOut || leftOut
		return list.add(one, l.Record)
	})
	bar.end()
	switch {
	case errors.Is(err, ops.ErrNoDeadLetters):
		return asUsage(err)
	case err != nil:
		return err
	case counts != nil:
		groups := counts.groups()
		return printResult(cmd, groups, counts.text(groups))
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
	Discarded string              `json:"discarded,omitempty"` // why it was
	EndedBy   string              `json:"endedBy,omitempty"`   // the command of dlq, with its flags; "" where it has ended
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

func entryOf(l *ops.DeadLetter) deadLetterEntry {
	one := deadLetterEntry{
		Letter: fmt.Sprintf("%d:%d", l.Partition, l.Offset), Topic: l.Record.Topic, Time: l.Record.Timestamp.UTC(),
		Mapping: l.Mapping, Table: l.Table, Lane: l.Lane, Stage: string(l.Stage), Reason: l.Code, Status: l.Status,
		Execution: l.Execution, Attempts: l.Attempts, State: l.State, Discarded: l.Discard, Message: l.Message, MayBeInTable: l.MayBeInTable,
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
	// leftOut: some message is without the service's own words
	leftOut bool
	count   int
	block   [][]string // lines not yet printed
	below   []string   // what stands below each of them
}

// blockLines are aligned with each other.
const blockLines = 1000

// full reports whether what follows is only counted.
func (p *deadLetterList) full() bool { return p.limit > 0 && p.count >= p.limit }

func (p *deadLetterList) add(one deadLetterEntry, r *deadletter.Record) error {
	p.count++
	if p.json {
		return p.addJSON(one, r)
	}
	if len(p.block) == 0 {
		p.block = append(p.block, []string{"LETTER", "RECORD", "TIME", "MAPPING", "REASON", "STATUS", "ATTEMPTS", "STATE", "ENDED BY", "MESSAGE"})
	}
	if p.values {
		p.below = append(p.below, "  key   "+shownBytes(r.Key)+"\n  value "+shownBytes(r.Value))
	}
	message := oneLine(one.Message)
	if one.Discarded != "" {
		message = "discarded: " + oneLine(one.Discarded) + "; " + message
	}
	p.block = append(p.block, []string{
		one.Letter, one.record(), one.Time.Format(time.RFC3339),
		one.Mapping, one.reason(), number(one.Status), number(one.Attempts), string(one.State), one.EndedBy, message,
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
	if p.leftOut {
		notes = append(notes, wordsLeftOut)
	}
	if foreign > 0 {
		notes = append(notes, counted(foreign, foreignOne, foreignMany)+".")
	}
	if len(notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(p.to, strings.Join(notes, "\n"))
	return err
}

// wordsLeftOut says how to see what is not in MESSAGE.
const wordsLeftOut = "--show-value shows the service's own words, which may be customers' data"

// What is said of records of the dead-letter topic that others wrote.
const (
	foreignOne  = "record of the topic is no letter of this connector"
	foreignMany = "records of the topic are no letters of this connector"
)

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

// countColumn is something that dead letters can be counted by.
type countColumn struct {
	name string
	of   func(*deadLetterEntry) string
}

var countColumns = []countColumn{
	{"mapping", func(l *deadLetterEntry) string { return l.Mapping }},
	{"reason", (*deadLetterEntry).reason},
	{"message", func(l *deadLetterEntry) string { return l.Message }},
	{"topic", func(l *deadLetterEntry) string { return l.Topic }},
	{"partition", (*deadLetterEntry).partition},
	{"table", func(l *deadLetterEntry) string { return l.Table }},
	{"lane", func(l *deadLetterEntry) string { return l.Lane }},
	{"stage", func(l *deadLetterEntry) string { return l.Stage }},
	{"status", func(l *deadLetterEntry) string { return number(l.Status) }},
	{"execution", func(l *deadLetterEntry) string { return l.Execution }},
	{"attempts", func(l *deadLetterEntry) string { return strconv.Itoa(l.Attempts) }},
	{"state", func(l *deadLetterEntry) string { return string(l.State) }},
	{"day", func(l *deadLetterEntry) string { return l.Time.Format(time.DateOnly) }},
	{"hour", func(l *deadLetterEntry) string { return l.Time.Format("2006-01-02T15") }},
}

func countNames() string {
	names := make([]string, len(countColumns))
	for i, w := range countColumns {
		names[i] = w.name
	}
	return strings.Join(names, ", ")
}

// deadLetterCounts counts dead letters that have the same words.
type deadLetterCounts struct {
	columns []countColumn
	leftOut bool // some message is without the service's own words
	found   map[string]*deadLetterGroup
}

type deadLetterGroup struct {
	By      map[string]string `json:"by"`
	Letters int               `json:"letters"`
	First   time.Time         `json:"first"` // of the records
	Last    time.Time         `json:"last"`
	cells   []string
}

// newDeadLetterCounts is nil where nothing is to be counted.
func newDeadLetterCounts(by []string) (*deadLetterCounts, error) {
	if len(by) == 0 {
		return nil, nil
	}
	c := &deadLetterCounts{found: map[string]*deadLetterGroup{}}
	for _, name := range by {
		i := slices.IndexFunc(countColumns, func(w countColumn) bool { return w.name == name })
		if i < 0 {
			return nil, usagef("--by: must be some of %s, is %q", countNames(), name)
		}
		c.columns = append(c.columns, countColumns[i])
	}
	return c, nil
}

func (c *deadLetterCounts) add(l deadLetterEntry) {
	cells := make([]string, len(c.columns))
	for i, w := range c.columns {
		cells[i] = w.of(&l)
	}
	key := strings.Join(cells, "\x00")
	g := c.found[key]
	if g == nil {
		g = &deadLetterGroup{By: map[string]string{}, First: l.Time, Last: l.Time, cells: cells}
		for i, w := range c.columns {
			g.By[w.name] = cells[i]
		}
		c.found[key] = g
	}
	g.Letters++
	if l.Time.Before(g.First) {
		g.First = l.Time
	}
	if l.Time.After(g.Last) {
		g.Last = l.Time
	}
}

// groups has the largest first.
func (c *deadLetterCounts) groups() []*deadLetterGroup {
	groups := make([]*deadLetterGroup, 0, len(c.found))
	for _, g := range c.found {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *deadLetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), slices.Compare(a.cells, b.cells))
	})
	return groups
}

func (c *deadLetterCounts) text(groups []*deadLetterGroup) string {
	if len(groups) == 0 {
		return "No dead letters."
	}
	header := []string{"LETTERS"}
	for _, w := range c.columns {
		header = append(header, strings.ToUpper(w.name))
	}
	lines := [][]string{append(header, "FIRST", "LAST")}
	for _, g := range groups {
		line := []string{strconv.Itoa(g.Letters)}
		for _, cell := range g.cells {
			line = append(line, oneLine(cell))
		}
		lines = append(lines, append(line, g.First.Format(time.RFC3339), g.Last.Format(time.RFC3339)))
	}
	if c.leftOut {
		return aligned(lines) + "\n" + wordsLeftOut
	}
	return aligned(lines)
}

// oneLine is text from outside as a terminal may show it.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// shownBytes is a record's bytes as a terminal may show them.
func shownBytes(b []byte) string {
	if b == nil {
		return "null"
	}
	return oneLine(string(b))
}

func newDLQ() *cobra.Command {
	return newGroup("dlq", "Look at dead letters, try them again, or discard them",
		newDLQList(), newDLQReplay(), newDLQDiscard())
}

type filterFlags struct {
	replay.Filter
	since, until, offsets string
	reason                string // the flag for reason codes
}

// reasonCodes are the codes of dead letters.
var reasonCodes = []string{"decode", "value", "no_id", "conflict", "not_found", "rejected", "import_row"}

// register adds the flags; reason is the name of the one for reason codes.
func (f *filterFlags) register(cmd *cobra.Command, reason string) {
	f.reason = reason
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Mappings, "mapping", nil, "only letters of these mappings")
	flags.StringSliceVar(&f.Reasons, reason, nil, "only letters with these reasons: "+strings.Join(reasonCodes, ", "))
	flags.StringVar(&f.since, "since", "", "only records of this time and later: 2026-11-21, 2026-11-21T10:00:00Z, or an age such as 36h")
	flags.StringVar(&f.until, "until", "", "only records from before this time")
	flags.StringArrayVar(&f.Keys, "key", nil, "only records with this Kafka key; may be given several times")
	flags.StringVar(&f.Topic, "topic", "", "only records that came from this topic")
	flags.Int32SliceVar(&f.Partitions, "partition", nil, "only records from these partitions of it")
	flags.StringVar(&f.offsets, "offset", "", "only records at this offset, or in a range of offsets such as 100-199")
}

// filter reads the flags; every error is one of usage.
func (f *filterFlags) filter(now time.Time) (replay.Filter, error) {
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
	}
	for _, code := range f.Reasons {
		if !slices.Contains(reasonCodes, code) {
			errs = append(errs, unknownReason(f.reason, code))
		}
	}
	var err error
	f.Since, err = parseTime(f.since, now)
	note("--since", err)
	f.Until, err = parseTime(f.until, now)
	note("--until", err)
	f.Offsets, err = offsets(f.offsets)
	note("--offset", err)
	return f.Filter, asUsage(errors.Join(errs...))
}

// unknownReason refuses a code that no letter can have. A misspelt one would find no
// letter, as if there were none.
func unknownReason(flag, code string) error {
	hint := ""
	if similar := problem.Similar(code, reasonCodes...); similar != "" {
		hint = "; " + similar
	}
	return fmt.Errorf("--%s: must be some of %s, is %q%s", flag, strings.Join(reasonCodes, ", "), code, hint)
}

// parseTime reads a point in time or an age; "" is none.
func parseTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(text); err == nil {
		return now.Add(-age), nil
	}
	if number, ok := strings.CutSuffix(text, "d"); ok {
		if days, err := strconv.ParseUint(number, 10, 16); err == nil {
			return now.Add(-time.Duration(days) * 24 * time.Hour), nil
		}
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a date, a time such as 2026-11-21T10:00:00Z, or an age such as 36h or 7d, is %q", text)
}

// offsets reads N or N-M; "" is none.
func offsets(text string) (*replay.Offsets, error) {
	if text == "" {
		return nil, nil
	}
	low, high, isRange := strings.Cut(text, "-")
	first, err := strconv.ParseInt(low, 10, 64)
	last := first
	if isRange && err == nil {
		last, err = strconv.ParseInt(high, 10, 64)
	}
	if err != nil || first < 0 || last < first {
		return nil, fmt.Errorf("must be an offset, or a range such as 100-199, is %q", text)
	}
	return &replay.Offsets{First: first, Last: last}, nil
}
