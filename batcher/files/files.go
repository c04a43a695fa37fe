// Package files says what a mapping's files are: their columns and names, when one is
// complete, what loads it, and what the output files of its import look like.
//
// It knows nothing of the rows in them, or of imports.
package files

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/feedsink/feedsink/batcher/rowerror"
	"github.com/feedsink/feedsink/batcher/slots"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// Mapping is the batch lane of one mapping.
type Mapping struct {
	Name        string
	Table       schemas.Table
	Fingerprint uint64
	Key         spool.Key
	Columns     []spool.Column // the key's among them
	CSV         spool.CSV
	Roll        Roll
	MaxFile     spool.Limit // of a file as it is sent, a law; Roll says when it is due
	RetryFailed int         // further tries of a file whose execution FAILED
	KeepResults bool        // output files are kept, whether they were needed or not
	Loads       map[schemas.Op]Load
	Auto        bool          // rows may be called instead: Offer
	Within      time.Duration // how old a record of such a row may be when the service has it; 0: no matter
	DualLane    bool          // the other lane writes keys of the table too: Other tells of them
	After       []string      // mappings whose rows are loaded first; those without a batch lane count for Parents only
	// Bundle joins mappings whose files go as one: of each op a ZIP with an entry
	// for every one of them that has a Load for it, which are the same ETL's. They
	// have one Roll and one MaxFile, too. "": the mapping's files go by themselves.
	Bundle string
	// Entry is the name of the mapping's file in a bundle's ZIP. $YYYYMMDD in it
	// stands for the day, in Zone, on which the ZIP is sealed.
	Entry string
	Zone  *time.Location // nil: UTC
}

// Load is the triggered ETL for the rows of one operation.
type Load struct{ ETL, Mode string }

// Roll says when an open file is complete: whichever limit is reached first. 0: there is
// no such limit.
type Roll struct {
	Rows  int64           // distinct keys, counted within about 3 %
	Bytes int64           // uncompressed rows of the distinct keys, as first seen
	Age   time.Duration   // since the first row
	At    []time.Duration // times of day on the clock of Zone, since midnight
}

// Rows encodes the mapping's writes.
func (m Mapping) Rows() (*spool.Rows, error) { return spool.NewRows(m.Key, m.Columns, m.CSV) }

// dateToken is what the interface has in patterns of file names for a day.
const dateToken = "$YYYYMMDD"

// EntryName is the name of the mapping's file in a ZIP that is sealed at now.
func (m *Mapping) EntryName(now time.Time) string {
	return strings.ReplaceAll(m.Entry, dateToken, now.In(m.timeZone()).Format("20060102"))
}

// timeZone is the mapping's zone.
func (m *Mapping) timeZone() *time.Location { return cmp.Or(m.Zone, time.UTC) }

// Until is when a file that was opened then is complete, whatever its size; zero: never. importTime is
// what an import needs.
func (m *Mapping) Until(opened time.Time, importTime time.Duration) (at time.Time) {
	if m.Roll.Age > 0 {
		at = opened.Add(m.Roll.Age)
	}
	at = slots.Sooner(at, slots.Next(m.Roll.At, m.timeZone(), opened))
	if m.Within > 0 { // so that an import is in time
		at = slots.Sooner(at, opened.Add(max(m.Within-importTime, m.Within/2)))
	}
	return at
}

// ResumedUntil is Until for the first file behind a restart or a reload, by when its oldest
// record was written. It stays open for a while in any case: what was read before comes first,
// and the lanes agree on their routes.
func (m *Mapping) ResumedUntil(oldest, resumed time.Time, importTime time.Duration) time.Time {
	settled := 15 * time.Second
	if m.Roll.Age > 0 {
		settled = min(settled, max(m.Roll.Age/4, 2*time.Second), m.Roll.Age)
	}
	return slices.MaxFunc([]time.Time{m.Until(oldest, importTime), resumed.Add(settled)}, time.Time.Compare)
}

// Format is that of the mapping's rows in the output files of an import.
func (m *Mapping) Format(rows *spool.Rows, file string, op schemas.Op, bundled bool) rowerror.Format {
	out := rowerror.Format{
		Separator: cmp.Or(m.CSV.Separator, ",")[0], Enclosing: rows.Quote(), Encoding: rows.Encoding(),
		Key: m.Columns[rows.Key()].Header, File: file,
	}
	if bundled {
		stem, _, _ := strings.Cut(m.Entry, dateToken)
		out.File, out.Table = strings.TrimRight(stem, "-_. "), m.Table.Name
	}
	for i, c := range m.Columns {
		if !bundled || rows.Holds(i, op) {
			out.Columns = append(out.Columns, c.Header)
		}
	}
	return out
}

// Formats are those of a file in the spool, or of the output files of its import, one for
// each of the mappings whose rows it has: one, or those of a bundle.
func Formats(of []Mapping, file string) (all []rowerror.Format, err error) {
	for i := range of {
		rows, err := of[i].Rows()
		if err != nil {
			return nil, err
		}
		all = append(all, of[i].Format(rows, file, spool.OpOf(file), of[i].Bundle != ""))
	}
	return all, nil
}
