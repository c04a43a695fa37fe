package batcher

import (
	"errors"
	"fmt"
	"strings"
	"time"

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
	RetryFailed int  // further tries of a file whose execution FAILED
	KeepResults bool // output files are kept, whether they were needed or not
	Loads       map[schemas.Op]Load
	DualLane    bool     // the other lane writes keys of the table too: Other tells of them
	After       []string // mappings whose rows are loaded first; those without a batch lane count for Parents only
	// Bundle joins mappings whose files go as one: of each op a ZIP with an entry
	// for every one of them that has a Load for it, which are the same ETL's. They
	// have one Roll, too. "": the mapping's files go by themselves.
	Bundle string
	// Entry is the name of the mapping's file in a bundle's ZIP. $YYYYMMDD in it
	// stands for the day, in Zone, on which the ZIP is sealed.
	Entry string
	Zone  *time.Location // nil: UTC
}

// Load is the triggered ETL for the rows of one operation.
type Load struct{ ETL, Mode string }

// Roll says when an open file is complete: whichever limit is reached first.
type Roll struct {
	Rows  int64         // distinct keys, counted within about 3 %
	Bytes int64         // uncompressed rows of the distinct keys, as first seen
	Age   time.Duration // since the first row
}

func (m Mapping) validate() error {
	switch {
	case m.Name == "" || strings.ContainsAny(m.Name, `/\`):
		return errors.New("name: must be there and usable in a file name")
	case m.Roll.Rows <= 0 || m.Roll.Bytes <= 0 || m.Roll.Age <= 0:
		return fmt.Errorf("roll: rows, bytes and age must be positive, are %+v", m.Roll)
	case m.RetryFailed < 0:
		return fmt.Errorf("retryFailed: must not be negative, is %d", m.RetryFailed)
	case len(m.Loads) == 0:
		return errors.New("imports: none of upsert, patch, create, delete names an ETL")
	case m.Bundle != "" && (m.Entry == "" || strings.ContainsAny(m.Bundle+m.Entry, `/\`)):
		return errors.New("bundle: it and the mapping's entry must be there and usable in file names")
	}
	return spool.KnownCompression(m.CSV.Compression)
}

// Rows encodes the mapping's writes.
func (m Mapping) Rows() (*spool.Rows, error) { return spool.NewRows(m.Key, m.Columns, m.CSV) }

// dateToken is what the interface has in patterns of file names for a day.
const dateToken = "$YYYYMMDD"

// entryName is the name of the mapping's file in a ZIP that is sealed at now.
func (m *Mapping) entryName(now time.Time) string {
	zone := m.Zone
	if zone == nil {
		zone = time.UTC
	}
	return strings.ReplaceAll(m.Entry, dateToken, now.In(zone).Format("20060102"))
}
