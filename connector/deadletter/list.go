package deadletter

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedsink/feedsink/connector/words"
)

// State is whether a dead letter has ended.
type State string

// The states: not replayed, perhaps sent by a replay that did not end, replayed, discarded.
const (
	StateOpen      State = "open"
	StateTried     State = "tried"
	StateDone      State = "done"
	StateDiscarded State = "discarded"
)

// Ended reports whether nothing is left to do.
func (s State) Ended() bool { return s == StateDone || s == StateDiscarded }

// Entry is a dead letter as it is listed. Its fields are named as the columns and the words
// of --by are.
type Entry struct {
	Letter    string    `json:"letter"`          // partition:offset in the dead-letter topic
	Topic     string    `json:"topic,omitempty"` // where its record came from, as are Partition and Offset; "": a row that matches no record
	Partition *int32    `json:"partition,omitempty"`
	Offset    *int64    `json:"offset,omitempty"`
	Time      time.Time `json:"time"` // of the record
	Mapping   string    `json:"mapping,omitempty"`
	Table     string    `json:"table,omitempty"`
	Lane      string    `json:"lane,omitempty"`
	Stage     Stage     `json:"stage"`
	Reason    string    `json:"reason"`
	Status    int       `json:"status,omitempty"` // HTTP
	Execution string    `json:"execution,omitempty"`
	Attempts  int       `json:"attempts"` // replays after which it was here again
	State     State     `json:"state"`
	Discarded string    `json:"discarded,omitempty"` // why it was
	EndedBy   string    `json:"endedBy,omitempty"`   // the command of dlq, with its flags; "" where it has ended
	Message   string    `json:"message"`
	// MayBeInTable: a create after a crash or a lost answer whose row cannot be told.
	MayBeInTable bool     `json:"mayBeInTable,omitempty"`
	Content      *content `json:"content,omitempty"`

	leftOut bool // Message is without the service's own words
}

// content is the record's own bytes: as text, or base64 where they are none. A value that is
// null stays so.
type content struct {
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
}

// NewEntry is the dead letter in a list; with values also what may be customers' data.
func NewEntry(l *Received, state State, discarded string, values bool) Entry {
	one := Entry{
		Letter: fmt.Sprintf("%d:%d", l.Partition, l.Offset), Topic: l.Record.Topic, Time: l.Record.Timestamp.UTC(),
		Mapping: l.Mapping, Table: l.Table, Lane: l.Lane, Stage: l.Stage, Reason: l.Code, Status: l.Status,
		Execution: l.Execution, Attempts: l.Attempts, State: state, Discarded: discarded, Message: l.Message, MayBeInTable: l.MayBeInTable,
	}
	if !l.NoRecord() {
		one.Partition, one.Offset = &l.Record.Partition, &l.Record.Offset
	}
	if values {
		one.Content = &content{Key: jsonBytes(l.Record.Key), Value: jsonBytes(l.Record.Value)}
	} else {
		one.Message = l.Plain()
		one.leftOut = one.Message != l.Message
	}
	return one
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

// record is where the dead letter's record came from; "none" for a row that matches no
// record.
func (l *Entry) record() string {
	if l.Offset == nil {
		return "none"
	}
	return fmt.Sprintf("%s@%d", l.partition(), *l.Offset)
}

func (l *Entry) partition() string {
	if l.Partition == nil {
		return "none"
	}
	return fmt.Sprintf("%s[%d]", l.Topic, *l.Partition)
}

// reason is the code, and sets dead letters apart whose records may be in the table.
func (l *Entry) reason() string {
	if l.MayBeInTable {
		return l.Reason + " (may be in the table)"
	}
	return l.Reason
}

// List prints dead letters as they come, so that any number needs little memory.
type List struct {
	To     io.Writer
	JSON   bool
	Limit  int // 0: none
	Values bool

	leftOut bool // some message is without the service's own words
	count   int
	table   words.Table // lines not yet printed
	below   [][]string  // what stands below each of them
}

// blockLines are aligned with each other.
const blockLines = 1000

// Next counts a dead letter, and reports whether it is to be added.
func (p *List) Next() bool {
	p.count++
	return p.Limit == 0 || p.count <= p.Limit
}

// Add prints a dead letter, now or with those that follow.
func (p *List) Add(one Entry, r *Record) error {
	p.leftOut = p.leftOut || one.leftOut
	if p.JSON {
		return p.addJSON(one)
	}
	if len(p.table) == 0 {
		p.table.Add("LETTER", "RECORD", "TIME", "MAPPING", "REASON", "STATUS", "ATTEMPTS", "STATE", "ENDED BY", "MESSAGE")
	}
	if p.Values {
		p.below = append(p.below, []string{"  key   " + shown(r.Key), "  value " + shown(r.Value)})
	}
	message := words.OneLine(one.Message)
	if one.Discarded != "" {
		message = "discarded: " + words.OneLine(one.Discarded) + "; " + message
	}
	p.table.Add(one.Letter, one.record(), one.Time.Format(time.RFC3339),
		one.Mapping, one.reason(), words.Number(one.Status), words.Number(one.Attempts), string(one.State), one.EndedBy, message)
	if len(p.table) > blockLines {
		return p.flush()
	}
	return nil
}

// shown is a record's bytes as a terminal may show them.
func shown(b []byte) string {
	if b == nil {
		return "null"
	}
	return words.OneLine(string(b))
}

func (p *List) addJSON(one Entry) error {
	text, err := json.MarshalIndent(one, "  ", "  ")
	if err != nil {
		return err
	}
	open := ",\n  "
	if p.count == 1 {
		open = "[\n  "
	}
	_, err = fmt.Fprintf(p.To, "%s%s", open, text)
	return err
}

func (p *List) flush() error {
	if len(p.table) == 0 {
		return nil
	}
	text := p.table.Over(p.below)
	p.table, p.below = nil, nil
	_, err := fmt.Fprintln(p.To, text)
	return err
}

// End prints what is left, and what is to be said of the whole: foreign is how many records of
// the topic are no dead letters.
func (p *List) End(foreign int) error {
	if p.JSON {
		text := "\n]\n"
		if p.count == 0 {
			text = "[]\n"
		}
		_, err := io.WriteString(p.To, text)
		return err
	}
	if err := p.flush(); err != nil {
		return err
	}
	var notes []string
	switch {
	case p.count == 0:
		notes = append(notes, none)
	case p.Limit > 0 && p.count > p.Limit:
		notes = append(notes, fmt.Sprintf("… and %d more; --limit 0 lists all, --by mapping,reason counts them", p.count-p.Limit))
	}
	if p.leftOut {
		notes = append(notes, wordsLeftOut)
	}
	if foreign > 0 {
		notes = append(notes, words.Counted(foreign, ForeignOne, ForeignMany)+".")
	}
	if len(notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(p.To, strings.Join(notes, "\n"))
	return err
}

const (
	none = "No dead letters."
	// wordsLeftOut says how to see what is not in MESSAGE.
	wordsLeftOut = "--show-value shows the service's own words, which may be customers' data"
)
