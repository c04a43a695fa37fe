package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// diary is what the members said that the judge has to know.
type diary struct {
	mu       sync.Mutex
	assigned []assignment
	synced   []assignment    // when the group told members what they have, be it nothing new
	onRecord map[string]bool // executions that the ledger has, or had
}

// assignment is when a member of a group got partitions of a topic.
type assignment struct {
	at         time.Time
	member     string
	group      string
	topic      string // "": of all topics
	partitions []int32
}

// assignedBetween reports whether the member's immediate lane was given the
// partition in between.
func (d *diary) assignedBetween(member, topic string, partition int32, from, to time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return between(d.assigned, from, to, func(a assignment) bool {
		return a.member == member && a.group == immediateGroup &&
			(a.topic == "" || a.topic == topic && slices.Contains(a.partitions, partition))
	})
}

// rejoined reports whether the group told the member in between what it has. One that was frozen
// while it joined keeps its place, and is told what it had.
func (d *diary) rejoined(member, group string, from, to time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := func(a assignment) bool { return a.member == member && a.group == group }
	return between(d.assigned, from, to, of) || between(d.synced, from, to, of)
}

func between(all []assignment, from, to time.Time, is func(assignment) bool) bool {
	return slices.ContainsFunc(all, func(a assignment) bool { return a.at.After(from) && a.at.Before(to) && is(a) })
}

func (d *diary) has(execution string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.onRecord[execution]
}

// entry is a line of a member's log, as far as it is of interest.
type entry struct {
	Time       time.Time `json:"time"`
	Msg        string    `json:"msg"`
	Group      string    `json:"group"`
	Topic      string    `json:"topic"`
	Partitions any       `json:"partitions"` // ids, or how many
	Execution  string    `json:"execution"`
	Admin      string    `json:"admin"`
}

// journal reads the log of one run of a member, line by line as it is written.
type journal struct {
	member string
	diary  *diary
	copy   io.Writer
	rest   []byte

	mu    sync.Mutex
	admin string
}

func (j *journal) Write(b []byte) (int, error) {
	j.rest = append(j.rest, b...)
	for {
		text, rest, complete := bytes.Cut(j.rest, []byte{'\n'})
		if !complete {
			break
		}
		var e entry
		if json.Unmarshal(text, &e) == nil {
			j.note(e)
		}
		j.rest = rest
	}
	return j.copy.Write(b)
}

func (j *journal) note(e entry) {
	d := j.diary
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Msg {
	case "feedsink is running":
		j.mu.Lock()
		defer j.mu.Unlock()
		j.admin = e.Admin
	case "partitions assigned":
		a := assignment{at: e.Time, member: j.member, group: e.Group, topic: e.Topic}
		ids, _ := e.Partitions.([]any)
		for _, id := range ids {
			if n, ok := id.(float64); ok {
				a.partitions = append(a.partitions, int32(n))
			}
		}
		d.assigned = append(d.assigned, a)
	case "back in the group as a new member; reading the ledger of kept partitions again":
		d.assigned = append(d.assigned, assignment{at: e.Time, member: j.member, group: e.Group})
	case "kafka client: synced":
		d.synced = append(d.synced, assignment{at: e.Time, member: j.member, group: e.Group})
	case "execution is on record":
		d.onRecord[e.Execution] = true
	}
}

func (j *journal) address() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.admin
}
