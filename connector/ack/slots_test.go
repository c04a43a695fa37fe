package ack_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/feedsink/feedsink/connector/ack"
)

func seconds(times ...time.Time) (all []int64) {
	for _, t := range times {
		all = append(all, t.Unix())
	}
	return all
}

// Days that are over are counted with one time each, in the table's time zone.
func TestUsesOfADayThatIsOverTakeLittleRoom(t *testing.T) {
	zone := time.FixedZone("UTC+5:45", 5*3600+45*60)
	day := time.Date(2026, 11, 27, 0, 0, 0, 0, zone)
	at := func(d time.Duration) time.Time { return day.Add(d) }
	var l ack.Ledger
	for _, d := range []time.Duration{0, 2 * time.Hour, 23*time.Hour + 45*time.Minute, 24 * time.Hour, 26 * time.Hour} {
		l.UseSlots("customers", []time.Time{at(d)})
	}
	last := at(23*time.Hour + 45*time.Minute)
	if got, want := l.Slots[0].Used, seconds(last, last, last, at(24*time.Hour), at(26*time.Hour)); !slices.Equal(got, want) {
		t.Errorf("uses: got %v, want %v", got, want)
	}

	l = ack.Ledger{}
	for i := range 30 {
		table := fmt.Sprintf("profile/customers_of_%02d", i)
		for d := time.Duration(0); d < 48*time.Hour; d += 2 * time.Hour {
			l.UseSlots(table, []time.Time{at(d)})
		}
	}
	if got := l.Lasting(1_000_000); got > ack.MetadataLimit*3/4 {
		t.Errorf("30 tables with 12 imports a day: got %d characters, want three quarters of the room at most", got)
	}
}

func TestUsesOfTwoAccountsAreJoined(t *testing.T) {
	quarter := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	exact, later := quarter.Add(7*time.Minute), quarter.Add(time.Hour)
	l := ack.Ledger{Slots: []ack.Slots{{Table: "a", Used: seconds(quarter, quarter, later)}}}
	l.JoinSlots([]ack.Slots{
		{Table: "a", Used: seconds(exact)},                   // one of the two of its quarter
		{Table: "a", Used: seconds(exact.Add(-time.Hour))},   // of another one
		{Table: "b", Used: seconds(quarter)},                 // of another table
		{Table: "a", Used: seconds(quarter, quarter, later)}, // a copy
	})
	want := []ack.Slots{{Table: "a", Used: seconds(exact.Add(-time.Hour), quarter, quarter, later)}, {Table: "b", Used: seconds(quarter)}}
	if !reflect.DeepEqual(l.Slots, want) {
		t.Errorf("joined: got %v, want %v", l.Slots, want)
	}
}

func TestSlotsOfATableWithoutImportsAreForgotten(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	l := ack.Ledger{Slots: []ack.Slots{{Table: "former", Used: seconds(now.Add(-51 * time.Hour))}, {Table: "a", Used: seconds(now.Add(-49 * time.Hour))}}}
	l.ForgetSlots([]time.Time{now, now.AddDate(1, 0, 0)})
	if len(l.Slots) != 1 || l.Slots[0].Table != "a" {
		t.Errorf("slots: got %v, want those of a, which a calendar day may count", l.Slots)
	}
}

func TestLeastHasRoomForExecutions(t *testing.T) {
	im := ack.Import{Table: "profile/customers", Mode: "CREATE_OR_UPDATE", File: "customers-20261127T120000Z-abcdef.upsert.csv.gz", UpTo: 5000, Part: 1, Parts: 1, Attempt: 1}
	l := ack.Ledger{Imports: []ack.Import{im}}
	least := l.Least(1000)
	l.Imports[0].State, l.Imports[0].Execution = ack.Running, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	if metadata, _, err := l.Encode(1000, least); err != nil {
		t.Errorf("with the execution: %d characters, %v, want at most %d", len(metadata), err, least)
	}
}

func TestSlotsThatCannotBeReadAreNotWritten(t *testing.T) {
	l := ack.Ledger{Slots: []ack.Slots{{Table: "customers", Used: make([]int64, 1<<20)}}}
	metadata, _, err := l.Encode(0, ack.MetadataLimit)
	if err == nil {
		_, err = ack.Decode(metadata, 0)
	}
	if err != nil {
		t.Errorf("as many as are read: %v", err)
	}
	l.Slots[0].Used = append(l.Slots[0].Used, 0)
	if _, _, err := l.Encode(0, ack.MetadataLimit); !errors.Is(err, ack.ErrTooLarge) {
		t.Errorf("one more: got %v, want ErrTooLarge", err)
	}
}
