package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Execution is an import that the service accepted.
type Execution struct {
	// ID asks for its results; "" if the answer did not tell, and then its end
	// becomes known by its webhook only.
	ID string
}

// Trigger pushes a file to a triggered ETL (operation 10). zone is the calendar
// that the table's imports of the day follow, nil is UTC: it decides which
// refusals are NoSlot.
//
// Of an Error that is Unknown it cannot be told whether an execution was started.
// An upload that was cut before its last byte has started none.
func (c *Client) Trigger(ctx context.Context, etl string, file File, zone *time.Location) (Execution, error) {
	return c.launch(ctx, &call{op: opTrigger, target: etl, file: newUpload(file, nil), zone: zone}, etl)
}

// TriggerRemote starts a triggered ETL that fetches its file from a remote
// location (operation 10 without a file); zone as for Trigger.
func (c *Client) TriggerRemote(ctx context.Context, etl string, zone *time.Location) (Execution, error) {
	return c.launch(ctx, &call{op: opTrigger, target: etl, zone: zone}, etl)
}

// OneShot pushes a file together with its definition (operation 8, form B), in
// which Remote is nil; zone as for Trigger. A definition that Validate objects to
// is Rejected without a call.
func (c *Client) OneShot(ctx context.Context, definition OneShotETL, file File, zone *time.Location) (Execution, error) {
	return c.oneShot(ctx, definition, &file, zone)
}

// OneShotRemote launches an import whose definition names a file at a remote
// location (operation 8, form A); else as OneShot.
func (c *Client) OneShotRemote(ctx context.Context, definition OneShotETL, zone *time.Location) (Execution, error) {
	return c.oneShot(ctx, definition, nil, zone)
}

var errWhichFile = errors.New("fileTransfer.input: the file comes with the call or from a remote location, one of the two")

func (c *Client) oneShot(ctx context.Context, definition OneShotETL, file *File, zone *time.Location) (Execution, error) {
	if (file == nil) == (definition.Remote == nil) {
		return Execution{}, unsendable(opOneShot, errWhichFile)
	}
	body, err := sendable(opOneShot, definition)
	if err != nil {
		return Execution{}, err
	}
	if file == nil {
		return c.launch(ctx, &call{op: opOneShot, body: JSON(body), zone: zone})
	}
	return c.launch(ctx, &call{op: opOneShot, file: newUpload(*file, body), zone: zone})
}

func (c *Client) launch(ctx context.Context, call *call, names ...string) (Execution, error) {
	got, err := c.send(ctx, call, names...)
	if err != nil {
		return Execution{}, err
	}
	return Execution{ID: identifier(got.body, got.header, executionNames)}, nil
}

// Results asks how far an execution is (operation 11).
func (c *Client) Results(ctx context.Context, id string) (Results, error) {
	got, err := c.send(ctx, &call{op: opResults, target: id}, id)
	if err != nil {
		return Results{}, err
	}
	r, err := parseResults(got.body)
	if err == nil && r.id != "" && r.id != id {
		err = errOtherExecution
	}
	if err != nil {
		return Results{}, unreadable(opResults, id, got, err)
	}
	return r, nil
}

// CreateETL stores the definition of a triggered ETL and returns its id
// (operation 9), "" if the answer does not tell. A definition that Validate
// objects to is Rejected without a call.
func (c *Client) CreateETL(ctx context.Context, definition TriggeredETL) (string, error) {
	body, err := sendable(opCreateETL, definition)
	if err != nil {
		return "", err
	}
	got, err := c.send(ctx, &call{op: opCreateETL, body: JSON(body)})
	if err != nil {
		return "", err
	}
	return identifier(got.body, got.header, etlNames), nil
}

// sendable is a definition as it is sent, or what Validate says against it.
func sendable(op operation, definition interface{ Validate() error }) ([]byte, error) {
	if err := definition.Validate(); err != nil {
		return nil, unsendable(op, err)
	}
	body, err := json.Marshal(definition)
	return body, unsendable(op, err)
}

// ExecutionStatus is the state of an execution, in upper case. The interface
// names three; any other is one that has not ended.
type ExecutionStatus string

// The states of the interface.
const (
	InProgress ExecutionStatus = "IN_PROGRESS"
	Finished   ExecutionStatus = "FINISHED"
	Failed     ExecutionStatus = "FAILED"
)

// Ended reports whether the status will not change any more.
func (s ExecutionStatus) Ended() bool { return s == Finished || s == Failed }

// Unknown is the value of a counter that an answer does not carry.
const Unknown int64 = -1

// Counters are the lines of an import, each Unknown if the answer does not tell
// it. Their names are not shown in the interface and are matched by meaning.
type Counters struct {
	Read, InError, Inserted, Updated, Deleted int64
}

// Results are what is known of an execution (operation 11).
type Results struct {
	Status ExecutionStatus
	// Error is the service's reason of FAILED, at most 500 printable characters. It
	// may quote customers' values and belongs into no log.
	Error    string
	Counters Counters

	id string // of the execution that they are of; "": they do not tell
}

// Cause is what of Error may be said anywhere, "" if that is nothing.
func (r Results) Cause() string { return plainly(r.Error) }

// The meanings of a counter, the first that fits a name counts: "linesInError"
// is an error before it is a line, "linesRead" is told by its last word.
var counterNames = []struct {
	words []string
	field func(*Counters) *int64
}{
	{[]string{"error", "reject", "refus", "invalid", "fail", "discard", "ko"}, func(c *Counters) *int64 { return &c.InError }},
	{[]string{"insert", "creat", "added"}, func(c *Counters) *int64 { return &c.Inserted }},
	{[]string{"updat", "modif"}, func(c *Counters) *int64 { return &c.Updated }},
	{[]string{"delet", "remov"}, func(c *Counters) *int64 { return &c.Deleted }},
	{[]string{"read", "total", "processed", "received"}, func(c *Counters) *int64 { return &c.Read }},
}

// noCounters matches names of times and shares, and of all lines but those that the other
// words mean: creationDate, updatedAt, errorRate, linesWithoutError.
var noCounters = regexp.MustCompile(`without|rate$|ratio$|percent|^date|[^p]date$|dat$|^last|time|moment|duration`)

// noRows matches names of numbers of something else than rows: errorCode, errorFiles,
// invalidValuesIgnored, duplicatesRemoved.
var noRows = regexp.MustCompile(`code|file|size|byte|value|ignored|duplicate|message|(^|[^l])id$`)

// ofRows matches the names of counters whose 0 says that no row is in error: of rows, or of nothing else.
var ofRows = regexp.MustCompile(`line|row|record|profile|entr(y|ies)|^(the|all|total|count|nb|number|num|of|in|with)*(errors?|reject(ed|s|ions?)?|refused|invalid|fail(ed|ures?)?|discarded|ko)(count|total|number)?$`)

// countersOf matches the counters of one object, or the sums over a list: one
// object for each file of a bundle.
func countersOf(v any) Counters {
	if object, ok := v.(map[string]any); ok {
		c := matched(object, depth)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if list, ok := object[name].([]any); ok && c.said() == noneTold {
				c = sumOf(each(list))
			}
		}
		return c.said()
	}
	list, _ := v.([]any)
	return sumOf(each(list)).said()
}

// each are the counters of every element of a list.
func each(list []any) (all []Counters) {
	for _, one := range list {
		all = append(all, matched(one, depth))
	}
	return all
}

func matched(v any, left int) Counters {
	c := noneTold
	c.match("", "", v, left)
	return c
}

var noneTold = Counters{Unknown, Unknown, Unknown, Unknown, Unknown}

// sumOf is the sum over files, or tables. A counter that one of them leaves out is none of
// it, but that no row was in error has to be said of each: where another one has some, the
// output files are looked into anyway.
func sumOf(parts []Counters) Counters {
	sum, silent := noneTold, false
	for _, c := range parts {
		silent = silent || c.InError == Unknown
		for _, m := range counterNames {
			switch n, total := *m.field(&c), m.field(&sum); {
			case n == unsaid || *total == unsaid:
				*total = unsaid
			case n != Unknown:
				*total = add(max(*total, 0), n)
			}
		}
	}
	if silent && sum.InError == 0 {
		sum.InError = unsaid
	}
	return sum
}

// unsaid is a counter that is null: of a list, the sum is not known then.
const unsaid = Unknown - 1

func (c Counters) said() Counters {
	for _, m := range counterNames {
		*m.field(&c) = max(*m.field(&c), Unknown)
	}
	return c
}

// match walks into nested objects with what is above as part of the name: lines.read. Of
// several counters of one meaning (total and read) the greatest holds. Objects side by
// side that each count rows read and rows in error are those of several tables: their
// names say nothing, and their sum holds.
func (c *Counters) match(above, name string, v any, left int) {
	path := above + name
	if object, ok := v.(map[string]any); ok && left > 0 {
		tables := tablesOf(object, left)
		if len(tables) > 0 {
			sum := sumOf(slices.Collect(maps.Values(tables)))
			for _, m := range counterNames {
				c.take(m.field, *m.field(&sum))
			}
		}
		for name, inner := range object {
			if _, summed := tables[name]; !summed {
				c.match(path, plain(name), inner, left-1)
			}
		}
		return
	}
	text, zeros, _ := strings.Cut(scalar(v), ".") // 5.0 is one, 5.5 is none
	n, err := strconv.ParseInt(text, 10, 64)
	if v == nil {
		n, err = unsaid, nil
	}
	if err != nil || n < 0 && v != nil || strings.Trim(zeros, "0") != "" || noCounters.MatchString(path) || noRows.MatchString(name) {
		return
	}
	for _, m := range counterNames {
		if slices.ContainsFunc(m.words, func(word string) bool { return strings.Contains(path, word) }) {
			if n != 0 || m.field(c) != &c.InError || ofRows.MatchString(path) || ofRows.MatchString(name) {
				c.take(m.field, n)
			}
			return
		}
	}
}

func (c *Counters) take(of func(*Counters) *int64, n int64) {
	if field := of(c); n > *field || n == unsaid && *field == Unknown {
		*field = n
	}
}

// total matches the names of a sum beside those of the tables.
var total = regexp.MustCompile("^(grand)?(total|sum|all|overall|summary|global)s?$")

// tablesOf are the counters of members that are of one of several tables each, without one that
// is the total of the others; none if there are not several.
func tablesOf(object map[string]any, left int) map[string]Counters {
	tables, all := map[string]Counters{}, Counters{}
	for name, inner := range object {
		c := noneTold
		if _, ok := inner.(map[string]any); ok && !total.MatchString(plain(name)) {
			c = matched(inner, left-1)
		}
		if c.Read != Unknown && c.InError != Unknown {
			tables[name] = c
			all.Read, all.InError = add(all.Read, c.Read), add(all.InError, c.InError)
		}
	}
	if len(tables) < 2 {
		return nil
	}
	for name, c := range tables {
		if len(tables) > 2 && c.Read == all.Read-c.Read && c.InError == all.InError-c.InError {
			delete(tables, name)
			break
		}
	}
	return tables
}

// Output says what came with an execution's output files.
type Output struct {
	ContentType string      // as the service names it
	Compression Compression // as the content tells: Gzip, Zip or, for a CSV, Plain
	Bytes       int64
}

// OutputFiles writes the result and error files of an execution to w as they
// come (operation 12). An execution without any has none (no bytes) or is
// NotFound. After an error w may hold a beginning, and the call may be repeated
// with an emptied one.
func (c *Client) OutputFiles(ctx context.Context, id string, w io.Writer) (Output, error) {
	head := &beginning{to: w}
	got, err := c.send(ctx, &call{op: opOutputFiles, target: id, into: head}, id)
	if err != nil {
		return Output{}, err
	}
	return Output{
		ContentType: got.header.Get("Content-Type"), Compression: CompressionOf(head.first), Bytes: got.written,
	}, nil
}

// SaveOutputFiles streams the output files of an execution into a file (operation
// 12), which appears whole or not at all: until its last byte it is called
// path.part, which is removed after an error. Where there are no output files no
// file appears, and the answer tells no bytes. The file is not forced to the disk,
// since the service still has it.
func (c *Client) SaveOutputFiles(ctx context.Context, id, path string) (Output, error) {
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) // customers' data
	if err != nil {
		return Output{}, fmt.Errorf("%s %s: %w", opOutputFiles, id, err)
	}
	out, err := c.OutputFiles(ctx, id, file)
	if closed := file.Close(); closed != nil && err == nil {
		err = fmt.Errorf("%s %s: %w", opOutputFiles, id, closed)
	}
	if err != nil || out.Bytes == 0 {
		_ = os.Remove(part) // nothing in it is of use; the next try truncates it
		return out, err
	}
	if err := os.Rename(part, path); err != nil {
		return Output{}, fmt.Errorf("%s %s: %w", opOutputFiles, id, err)
	}
	return out, nil
}

// beginning remembers the first bytes that pass.
type beginning struct {
	to    io.Writer
	first []byte
}

func (b *beginning) Write(p []byte) (int, error) {
	if missing := 4 - len(b.first); missing > 0 {
		b.first = append(b.first, p[:min(missing, len(p))]...)
	}
	return b.to.Write(p)
}

// CompressionOf tells by the first four bytes, because the format of output files is not
// shown: what an answer's header says may be about the files or about their wrapping.
func CompressionOf(first []byte) Compression {
	switch {
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}):
		return Gzip
	case bytes.HasPrefix(first, []byte("PK\x03\x04")), bytes.HasPrefix(first, []byte("PK\x05\x06")):
		return Zip
	}
	return Plain
}

// Webhook asks to be called when an execution ends. Of what a subscription may
// be on, the interface shows executions (ETL_EXECUTION), their end (FINISHED)
// and one call for each of them (ONE_BY_ONE): these are always sent.
type Webhook struct {
	ElementID string            // what is watched: an ETL
	TargetURL string            // http or https
	Headers   map[string]Secret // sent with each call, so that its receiver knows who calls
	Inactive  bool              // subscribes without being called
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// Validate reports everything in the subscription that cannot work, at once.
func (w Webhook) Validate() error {
	var p problems
	p.need("onElementId", w.ElementID)
	u, err := url.Parse(w.TargetURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		p.add("targetUrl", "must begin with http:// or https:// and a host")
	}
	for name, value := range w.Headers {
		if !headerName.MatchString(name) || !headerSafe(value.Reveal()) {
			p.add("headers", "%q cannot be sent: its name or its value is empty or holds characters that no HTTP header may carry", name)
		}
	}
	return errors.Join(p...)
}

// CreateWebhook subscribes to the end of executions and returns the
// subscription's id (operation 13), "" if the answer does not tell.
func (c *Client) CreateWebhook(ctx context.Context, webhook Webhook) (string, error) {
	if err := webhook.Validate(); err != nil {
		return "", unsendable(opCreateWebhook, err)
	}
	headers := make(map[string]string, len(webhook.Headers))
	var secrets []string
	for name, value := range webhook.Headers {
		headers[name] = value.Reveal()
		quoted := strings.Trim(string(raw(value.Reveal())), `"`) // as an echo of the body has it
		secrets = append(secrets, value.Reveal(), quoted)
	}
	body := raw(struct {
		On        string            `json:"on"`
		ElementID string            `json:"onElementId"`
		EventType string            `json:"eventType"`
		TargetURL string            `json:"targetUrl"`
		Headers   map[string]string `json:"headers"`
		PushType  string            `json:"webhookPushType"`
		Active    bool              `json:"isActive"`
	}{"ETL_EXECUTION", webhook.ElementID, "FINISHED", webhook.TargetURL, headers, "ONE_BY_ONE", !webhook.Inactive})
	got, err := c.send(ctx, &call{op: opCreateWebhook, body: JSON(body), secrets: secrets})
	if err != nil {
		return "", err
	}
	return identifier(got.body, got.header, webhookNames), nil
}
