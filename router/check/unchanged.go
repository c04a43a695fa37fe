package check

import (
	"slices"
	"time"

	"github.com/feedsink/feedsink/router"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/schemas"
)

const sendsAll = "remove unchanged: every event is sent then"

// unchanged refuses `unchanged: skip` where this process cannot know all that writes a row: a
// call that is not made because the row was thought to say the same would leave it wrong.
func (m *mapping) unchanged() {
	switch m.m.Unchanged {
	case "skip":
	case "":
		if m.m.UnchangedFor != 24*time.Hour && m.m.UnchangedFor != 0 {
			m.Report("unchangedFor", "add unchanged: skip", "means nothing without unchanged")
		}
		return
	default:
		m.Report("unchanged", "write skip, or nothing", "%q is no choice", m.m.Unchanged)
		return
	}
	if m.m.UnchangedFor < time.Second {
		m.Report("unchangedFor", "24h is the default: each row is sent again once a day at the latest, if an event comes", "must be at least 1s, is %s", m.m.UnchangedFor)
	}
	if len(m.m.Topics) > 1 {
		m.Report("unchanged", "make it one topic, or "+sendsAll,
			"skip is for one topic: two members may have the topics, and neither would know what the other has written of a key")
	}
	switch op, always := m.onlyOp(); {
	case !m.c.Uses(schemas.Immediate):
		m.Report("unchanged", sendsAll, "skip is for routes that lead to the immediate lane, which this mapping does not use; a file has one row for each key anyway")
	case m.c.DualLane():
		m.Report("unchanged", "leave routes to files and their imports out, or "+sendsAll,
			"skip is for mappings whose records all go by calls: a file may have written the row since")
	case always && op == schemas.Create:
		m.Report("unchanged", sendsAll, "has no effect: every record is a create, and none is skipped")
	}
	if parent := m.profiles(func(c *router.Compiled) bool { return slices.Contains(m.m.After, c.Name) }); parent != nil {
		m.Report("unchanged", "remove after, if the service deletes no records of this table with a profile, or "+sendsAll,
			"skip cannot be used after %q: a profile that is deleted may take its linked records with it", parent.Name)
	}
}

// CouldSkipUnchanged reports whether a mapping, one of all, might have `unchanged: skip` too.
func CouldSkipUnchanged(all []*router.Compiled, c *router.Compiled) bool {
	var problems []problem.Problem
	config := c.Config
	config.Unchanged, config.UnchangedFor = "skip", 24*time.Hour
	m := &mapping{problem.NewReporter("", &problems), &mappings{compiled: all}, c, &config}
	m.unchanged()
	return len(problems) == 0
}

// linkedRecords warns that records may be deleted with a profile.
func (m *mapping) linkedRecords() {
	if m.m.Unchanged == "" {
		return
	}
	if parent := m.profiles(func(*router.Compiled) bool { return true }); parent != nil {
		m.Report("unchanged", "remove unchanged, if that may be",
			"if the definition of table %s deletes its records with the profile that they are linked to, one that was deleted so is not sent again before unchangedFor has passed",
			m.c.Label)
	}
}

// profiles is the first mapping with a profile table that is meant, where this one's is custom.
func (m *mapping) profiles(meant func(*router.Compiled) bool) *router.Compiled {
	i := slices.IndexFunc(m.all.compiled, func(c *router.Compiled) bool { return m.c.Table.Custom && !c.Table.Custom && meant(c) })
	if i < 0 {
		return nil
	}
	return m.all.compiled[i]
}
