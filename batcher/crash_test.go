package batcher

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/schemas"
)

// crashLog makes two generations of three files each: five keys complete one.
var crashLog = []string{
	"0 upsert 1 a=1",
	"1 delete 5",
	"1 upsert 5 a=1",
	"0 delete 2",
	"1 patch 4 b=1",
	"0 upsert 3 a=1",

	"0 patch 1 b=2",
	"1 delete 4",
	"0 upsert 2 a=2",
	"1 upsert 5 a=2",
	"0 upsert 3 a=2",
}

const crashFiles = 6

// bundleLog is the same of two mappings.
var bundleLog = []string{
	"0 upsert 1 a=1",
	"1 delete o5",
	"1 upsert o5 a=1",
	"0 delete 2",
	"1 patch o4 b=1",
	"0 upsert o3 a=1",

	"0 patch 1 b=2",
	"1 delete o4",
	"0 upsert 2 a=2",
	"1 upsert o5 a=2",
	"0 upsert o3 a=2",
}

// playPlan runs a plan to its end and checks what must hold in every run.
func playPlan(t *testing.T, p plan, log []string) (c *cluster) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := testMapping()
		m.Roll.Rows, m.RetryFailed, m.CSV.Compression = 5, 1, "NONE"
		m.MaxFile.Rows = p.maxRows
		mappings := []files.Mapping{m}
		if p.bundle {
			mappings = bundled(m)
		}
		c = &cluster{t: t, plan: p, service: newService(t, log...), mappings: mappings, slots: map[string]time.Time{}}
		c.play()
		c.service.checkFinal()
		c.checkSlots()
	})
	return c
}

// A crash anywhere between files that waited because one was as large as it may be: each
// of them has its own hold on its records, so that none is sent twice or left out.
func TestCrashBetweenFilesThatAreAsLargeAsTheyMayBe(t *testing.T) {
	for _, rows := range []int64{2, 3} {
		for _, bundle := range []bool{false, true} {
			t.Run(fmt.Sprint(rows, " rows, bundle ", bundle), func(t *testing.T) {
				t.Parallel()
				p, log := plan{perDay: 1000, maxRows: rows, bundle: bundle}, crashLog
				if bundle {
					log = bundleLog
				}
				whole := playPlan(t, p, log)
				for n := range whole.effects {
					for _, after := range []bool{false, true} {
						p.crashes, p.keep = []point{{n, after}}, n%2 == 0
						checkCost(t, playPlan(t, p, log), len(whole.service.executions))
					}
				}
			})
		}
	}
}

// points are all places for a crash in a run, from an effect on, up to the
// confirmation of the first generation.
func (c *cluster) points(from int) (ps []point) {
	for n := from; n <= slices.Index(c.effects, "confirm"); n++ {
		ps = append(ps, point{n, false}, point{n, true})
	}
	return ps
}

// A crash right before and right after everything that leaves the process, up
// to the first confirmation: the transcript tells what the next owner makes of it.
func TestCrashAtEveryStepOfAnImport(t *testing.T) {
	crashInScenarios(t, crashLog, "crashes.txt", []scenario{
		{"three files, all FINISHED", plan{}},
		{"upsert FAILED once", plan{fails: map[schemas.Op]int{schemas.Upsert: 1}}},
		{"upsert FAILED until its tries are used up; released then", plan{fails: map[schemas.Op]int{schemas.Upsert: 2}}},
		{"the answer to the second trigger is lost", plan{lost: 2}},
	})
}

// The same with two mappings in a bundle: keys that begin with o are the second one's.
func TestCrashAtEveryStepOfABundle(t *testing.T) {
	crashInScenarios(t, bundleLog, "bundlecrashes.txt", []scenario{
		{"three ZIPs, all FINISHED", plan{bundle: true}},
		{"upsert FAILED until its tries are used up; released then", plan{bundle: true, fails: map[schemas.Op]int{schemas.Upsert: 2}}},
		{"the answer to the second trigger is lost", plan{bundle: true, lost: 2}},
	})
}

// bundled are two mappings of one bundle, customers first.
func bundled(m files.Mapping) []files.Mapping {
	m.Bundle, m.Entry = "crm", "customers.csv"
	orders := m
	orders.Name, orders.Table, orders.Entry = "orders", schemas.Table{Name: "orders", Custom: true}, "orders.csv"
	return []files.Mapping{m, orders}
}

type scenario struct {
	name string
	plan plan
}

func crashInScenarios(t *testing.T, log []string, file string, scenarios []scenario) {
	t.Helper()
	sections := make([]bytes.Buffer, len(scenarios))
	t.Run("scenarios", func(t *testing.T) {
		for i, s := range scenarios {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.plan.perDay = 1000
				fmt.Fprintf(&sections[i], "# %s\n", s.name)
				crashEverywhere(t, s.plan, log, &sections[i])
			})
		}
	})
	var out bytes.Buffer
	for i := range sections {
		out.Write(sections[i].Bytes())
	}
	golden(t, file, out.Bytes())
}

func crashEverywhere(t *testing.T, p plan, log []string, out io.Writer) {
	whole := playPlan(t, p, log)
	fmt.Fprintf(out, "%-24s | %s\n", "no crash", totals(whole))
	for _, at := range whole.points(0) {
		when := "before"
		if at.after {
			when = "after "
		}
		var lines [2]string
		for i, keep := range []bool{true, false} {
			p.crashes, p.keep = []point{at}, keep
			c := playPlan(t, p, log)
			if got, want := c.effects[:at.effect], whole.effects[:at.effect]; !slices.Equal(got, want) {
				t.Fatalf("effects before the crash: got %q, want those of the run without, %q", got, want)
			}
			lines[i] = fmt.Sprintf("%-24s | %s | %s\n", when+" "+whole.effects[at.effect], totals(c), c.story.String())
			checkCost(t, c, crashFiles)
		}
		if lines[0] != lines[1] {
			t.Errorf("with the spool's disk kept: got %q\nwithout: %q, want the same", lines[0], lines[1])
		}
		_, _ = io.WriteString(out, lines[0])
	}
	_, _ = io.WriteString(out, "\n")
}

// Owners that crash while they are at what another one left: every pair of
// places, with two files.
func TestSecondCrashAnywhereBehindTheFirst(t *testing.T) {
	log := []string{"0 upsert 1 a=1", "1 delete 5", "1 upsert 5 a=1", "0 upsert 2 a=1", "0 upsert 3 a=1", "0 upsert 4 a=1", "1 upsert 5 a=2", "0 delete 1"}
	p := plan{perDay: 1000}
	whole := playPlan(t, p, log)
	for _, first := range whole.points(0) {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			t.Parallel()
			p := p
			p.crashes = []point{first}
			for _, second := range playPlan(t, p, log).points(first.effect + 1) {
				p.crashes, p.keep = []point{first, second}, second.after
				checkCost(t, playPlan(t, p, log), 4)
			}
		})
	}
}

// Owners that crash again and again, with a service that fails and few slots.
func TestManyCrashesWithFewSlots(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			p := plan{perDay: 3 + rnd.IntN(3), lost: rnd.IntN(6), fails: map[schemas.Op]int{schemas.Upsert: rnd.IntN(2), schemas.Patch: rnd.IntN(2)}}
			for at := rnd.IntN(6); len(p.crashes) < 8; at += 1 + rnd.IntN(12) {
				p.crashes = append(p.crashes, point{at, rnd.IntN(2) == 0})
			}
			p.keep = rnd.IntN(2) == 0
			checkCost(t, playPlan(t, p, crashLog), crashFiles)
		})
	}
}

func totals(c *cluster) string {
	return fmt.Sprintf("%d imports, %d slots", c.story.imports, c.story.slots)
}

// checkCost checks that nothing but FAILED, a lost answer, or a crash between a
// trigger and the record of its answer repeats an import, and that a crash takes a
// slot only where an intent is on record.
func checkCost(t *testing.T, c *cluster, files int) {
	t.Helper()
	imports := files + min(c.plan.lost, 1)
	for _, n := range c.plan.fails {
		imports += n
	}
	slots := imports
	for _, at := range c.plan.crashes {
		if at.effect >= len(c.effects) {
			continue // the run was over before
		}
		step, _, _ := strings.Cut(c.effects[at.effect], " ")
		switch {
		case step == "trigger" && at.after, step == "record" && !at.after:
			imports++
			slots++
		case step == "intend" && at.after, step == "trigger":
			slots++
		}
	}
	if got := len(c.service.executions); got > imports {
		t.Errorf("crashes at %v of %q: got %d imports, want at most %d", c.plan.crashes, c.effects, got, imports)
	}
	if got := len(c.slots); got > slots {
		t.Errorf("crashes at %v of %q: got %d slots on record, want at most %d", c.plan.crashes, c.effects, got, slots)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}
