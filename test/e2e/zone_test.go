package e2e_test

import (
	"bytes"
	encoding "encoding/binary" // the package has a binary of its own
	"os"
	"path/filepath"
	"testing"
	"time"
)

// zoneDir is where package time of this process looks for time zones first.
var zoneDir string

// midnightAt makes or changes a time zone and returns its name. Until the moment
// it is the morning there, and then the next day: its clocks are moved from noon
// to midnight. A sink reads its zones when it starts.
func midnightAt(t *testing.T, moment time.Time) (zone string) {
	t.Helper()
	const day, half = 24 * 60 * 60, 12 * 60 * 60
	before := int32(half - moment.Unix()%day) // seconds east of UTC, to be noon at the moment
	var file bytes.Buffer
	file.WriteString("TZif")
	file.Write(make([]byte, 16))
	for _, v := range []any{
		[6]uint32{0, 0, 0, 1, 2, 4},    // counts: one transition, two types, a text of four bytes
		int32(moment.Unix()), uint8(1), // at the moment, to the second type
		before, uint8(0), uint8(0), // no daylight-saving time, name at 0
		before + half, uint8(0), uint8(0),
		[4]byte{'T', 'S', 'T'},
	} {
		if err := encoding.Write(&file, encoding.BigEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	zone = filepath.Join("Test", t.Name())
	path := filepath.Join(zoneDir, zone)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestMidnightComesWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, moment := range []int64{1_795_262_013, 1_795_300_000, 1_795_219_200} {
		location, err := time.LoadLocation(midnightAt(t, time.Unix(moment, 0)))
		if err != nil {
			t.Fatal(err)
		}
		before, after := time.Unix(moment-1, 0).In(location), time.Unix(moment, 0).In(location)
		if got := before.Format(time.TimeOnly); got != "11:59:59" {
			t.Errorf("a second before: got %s, want 11:59:59", got)
		}
		if got := after.Format(time.TimeOnly); got != "00:00:00" || after.YearDay() != before.YearDay()+1 {
			t.Errorf("at the moment: got %v after %v, want the beginning of the next day", after, before)
		}
	}
}
