package batcher

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/files"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// sent are the steps of a transcript that begin with a word; of a trigger its file's keys.
func sent(lines []string, word string) (all []string) {
	for _, line := range lines {
		if _, what, ok := strings.Cut(line, " "+word+" "); ok {
			all = append(all, what)
		}
	}
	return all
}

var keyOfRow = regexp.MustCompile(`\\nC(\d+),`)

// keysOf are the keys of a file in a transcript's line.
func keysOf(line string) (keys []string) {
	for _, m := range keyOfRow.FindAllStringSubmatch(line, -1) {
		keys = append(keys, m[1])
	}
	slices.Sort(keys)
	return keys
}

// customersFrom are upserts of n keys from C<first> on.
func customersFrom(first, n int) (writes []schemas.Write) {
	rnd := rand.New(rand.NewPCG(uint64(first), 1))
	for i := range n {
		writes = append(writes, write(schemas.Upsert, fmt.Sprintf("C%05d", first+i), "a", fmt.Sprintf("%x", rnd.Uint64())))
	}
	return writes
}

// fullFiles is a world of one mapping whose files wait for their slot until the gate lets them go.
// It does not run yet.
func fullFiles(t *testing.T, change func(*files.Mapping)) (*world, *turnstile) {
	w, gate, m := newWorld(t), &turnstile{}, testMapping()
	gate.roll.Store(int64(time.Minute))
	change(&m)
	w.open(Config{Gate: gate}, m)
	return w, gate
}

// TestRowsThatWaitGoAsFilesOfAtMostMaxFile: 12,000 rows wait for a slot, and a file may
// have 2,000. They go as six, the oldest first, each with its own hold on its records.
func TestRowsThatWaitGoAsFilesOfAtMostMaxFile(t *testing.T) {
	const many, most = 6, 2000
	for _, segment := range []int{spool.SegmentSize, 1000} { // in memory, and on disk
		synctest.Test(t, func(t *testing.T) {
			w, gate := fullFiles(t, func(m *files.Mapping) { m.Roll.Rows, m.MaxFile.Rows = 100, most })
			w.b.segment = segment
			w.run()
			w.append(customersFrom(0, many*most)...)
			w.said()
			if s := w.b.Status()[0]; s.Rows != many*most || s.Full != many-1 || !s.Due {
				t.Errorf("status: got %d rows, %d full files, due %v, want %d, %d, true", s.Rows, s.Full, s.Due, many*most, many-1)
			}
			gate.roll.Store(0)
			time.Sleep(time.Hour)
			lines := w.transcript()
			triggers, confirms := sent(lines, "trigger"), sent(lines, "confirm")
			if len(triggers) != many || len(confirms) != many {
				t.Fatalf("got %d triggers and %d confirmations, want %d of each", len(triggers), len(confirms), many)
			}
			for i := range many {
				keys := keysOf(triggers[i])
				if len(keys) != most || keys[0] != fmt.Sprintf("%05d", i*most) || keys[most-1] != fmt.Sprintf("%05d", i*most+most-1) {
					t.Errorf("file %d: got %d keys, %q to %q, want the %d from %d on", i, len(keys), keys[0], keys[len(keys)-1], most, i*most)
				}
				if want := fmt.Sprintf(`holds %d-%d`, 100+i*most, 100+i*most+most-1); !strings.HasSuffix(confirms[i], want) || !strings.HasPrefix(confirms[i], "upsert 1/1") {
					t.Errorf("file %d: got %q, want a file of its own that %s", i, confirms[i], want)
				}
			}
			w.wantSpool()
		})
	}
}

// TestFileEndsBeforeARecordThatMayNotFit: each record has three rows, which go out together.
func TestFileEndsBeforeARecordThatMayNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := fullFiles(t, func(m *files.Mapping) { m.MaxFile.Rows = 2000 })
		w.run()
		for i, write := range customersFrom(0, 4*1998) {
			w.add("customers", write, w.p, int64(100+i/3))
		}
		gate.roll.Store(0)
		time.Sleep(time.Hour)
		for _, e := range w.endings() {
			if e.Rows != 1998 || e.Parts != 1 {
				t.Errorf("%s: got %d rows in file %d/%d of its generation, want 1998 in one", e.File, e.Rows, e.Part, e.Parts)
			}
		}
		if got := len(w.endings()); got != 4 {
			t.Errorf("files: got %d, want 4", got)
		}
	})
}

// TestFilesThatWaitTakeNoMemory: all but the open file are on disk.
func TestFilesThatWaitTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := fullFiles(t, func(m *files.Mapping) { m.MaxFile.Rows = 10 })
		w.append(customersFrom(0, 95)...)
		if got := len(w.spooled()); got != 9 {
			t.Errorf("spool: got %d files, want the journals of the 9 that wait", got)
		}
		lose(w.b, "customers")
		w.wantSpool()
		check(t, w.b.Close())
	})
}

// TestFilesAreCutByCompressedBytes: what rows compress to is measured before the first
// file goes, and after each.
func TestFilesAreCutByCompressedBytes(t *testing.T) {
	for _, compression := range []string{"GZIP", "ZIP"} {
		synctest.Test(t, func(t *testing.T) {
			w, gate := fullFiles(t, func(m *files.Mapping) {
				m.CSV.Compression = compression
				m.MaxFile.Bytes, m.Roll.Rows = 20_000, 1000
			})
			w.run()
			w.append(customersFrom(0, 10_000)...)
			gate.roll.Store(0)
			time.Sleep(3 * time.Hour)
			rows := int64(0)
			for i, e := range w.endings() {
				rows += e.Rows
				if e.Bytes > 20_000 || i < len(w.endings())-1 && e.Bytes < 15_000 || e.Parts != 1 {
					t.Errorf("%s: got %d bytes in file %d/%d of its generation, want 15 to 20 kB in a generation of its own", e.File, e.Bytes, e.Part, e.Parts)
				}
			}
			if rows != 10_000 || len(w.endings()) < 3 {
				t.Errorf("got %d rows in %d files, want 10000 in three or more", rows, len(w.endings()))
			}
		})
	}
}

// TestKeyThatIsWrittenAgainFollowsItsFile: a key of a file that waits, written again, is
// a row of a later one.
func TestKeyThatIsWrittenAgainFollowsItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := fullFiles(t, func(m *files.Mapping) { m.MaxFile.Rows = 2 })
		w.run()
		w.append(write(schemas.Upsert, "1", "a", "old"), write(schemas.Delete, "2"), write(schemas.Upsert, "2", "a", "x"),
			write(schemas.Upsert, "1", "a", "new"), write(schemas.Patch, "1", "b", "newer"))
		gate.roll.Store(0)
		time.Sleep(2 * time.Hour)
		got := sent(w.transcript(), "trigger")
		want := []string{
			`104 with customers-*.delete.csv.gz: "k\n2\n", <nil>`,
			`101 with customers-*.upsert.csv.gz: "k,a,b\n1,old,\n", <nil>`,
			`101 with customers-*.upsert.csv.gz: "k,a,b\n2,x,\n1,new,\n", <nil>`,
			`102 with customers-*.patch.csv.gz: "k,a,b\n1,,newer\n", <nil>`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("triggers\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	})
}

// TestFileThatIsTooLargeForTheServiceIsHalved: until the service takes what is sent, and
// without anybody's help. Files that follow are not larger.
func TestFileThatIsTooLargeForTheServiceIsHalved(t *testing.T) {
	for _, bundle := range []bool{false, true} {
		log := crashLog
		if bundle {
			log = bundleLog
		}
		for at := range 12 {
			p := plan{perDay: 1000, takes: 1, bundle: bundle, crashes: []point{{at, true}}}
			c := playPlan(t, p, log)
			if got := c.story.String(); strings.Contains(got, "halts") {
				t.Errorf("crash after effect %d: got %s, want no halt", at, got)
			}
		}
	}
}

// halvesUntilOneRow writes three rows to a file that is refused as too large, and then one.
func halvesUntilOneRow(t *testing.T, w *world, halved, reason string) {
	t.Helper()
	w.append(customersFrom(0, 3)...)
	time.Sleep(time.Minute)
	w.lastSaid(halved)
	lose(w.b, "customers")
	synctest.Wait()
	w.append(customersFrom(0, 1)...)
	time.Sleep(2 * time.Hour)
	if got, halted := w.b.Halted("customers"); !halted || !strings.Contains(got, reason) {
		t.Errorf("one row: got halted %v, %q, want the mapping halted", halted, got)
	}
}

// TestImportThatFailedAsTooLargeIsHalved: FAILED may say so, too. A single row is not
// divided: the mapping halts.
func TestImportThatFailedAsTooLargeIsHalved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tooLarge := contract.Results{Status: contract.Failed, Reason: "file too large", TooLarge: true, SameAgain: true}
		w.results = []contract.Results{tooLarge, tooLarge}
		m := testMapping()
		m.Roll.Rows, m.CSV.Compression = 3, "GZIP"
		w.start(m)
		halvesUntilOneRow(t, w, `start over at 1/1 attempt 2 ""`, "FAILED")
	})
}

// TestFileThatAGatewayRefusesAsTooLargeIsHalved: who says so may pass, but the same file is never
// taken. A single row is not divided: the mapping halts.
func TestFileThatAGatewayRefusesAsTooLargeIsHalved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.triggers <- &refusal{transient: true, tooLarge: true}
		w.triggers <- &refusal{transient: true, tooLarge: true}
		m := testMapping()
		m.Roll.Rows = 3
		w.start(m)
		halvesUntilOneRow(t, w, `start over at 1/1 attempt 1 ""`, "service said no")
	})
}

// TestAdoptedImportThatFailedAsTooLargeIsHalved: how many rows it has is known once it is
// built again. It is not sent whole once more.
func TestAdoptedImportThatFailedAsTooLargeIsHalved(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Failed, Reason: "file too large", TooLarge: true, SameAgain: true}}
		w.start(testMapping())
		w.adopt(w.left(104, contract.Import{File: "customers-1.upsert.csv", Part: 1, Parts: 1, Attempt: 1, Execution: "e9", Op: schemas.Upsert, Mode: "CREATE_OR_UPDATE"}))
		time.Sleep(time.Minute)
		w.lastSaid(`start over at 1/1 attempt 2 ""`)
		for range 2 { // to count the rows, and to divide them
			lose(w.b, "customers")
			synctest.Wait()
			a := w.left(104, contract.Import{File: "customers-1.upsert.csv", Part: 1, Parts: 1, Attempt: 2, Op: schemas.Upsert, Mode: "CREATE_OR_UPDATE"})
			a.Rebuild = true
			w.adopt(a)
			for i, row := range customersFrom(0, 4) {
				w.read(w.p, int64(100+i), row)
			}
			time.Sleep(time.Minute)
		}
		var rows []int
		for _, file := range sent(w.transcript(), "trigger") {
			rows = append(rows, strings.Count(file, `\n`)-1)
		}
		if !slices.Equal(rows, []int{2, 2}) {
			t.Errorf("got files of %v rows, want two of 2 each", rows)
		}
	})
}

// TestClaimsAreThoseOfFilesThatAreFull: their records are the oldest.
func TestClaimsAreThoseOfFilesThatAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := fullFiles(t, func(m *files.Mapping) { m.MaxFile.Rows = 2 })
		gate.roll.Store(int64(time.Hour))
		w.run()
		w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "2"), write(schemas.Upsert, "3"), write(schemas.Upsert, "4"), write(schemas.Upsert, "5"))
		if got := len(w.b.Claims("customers")); got != 3 {
			t.Errorf("got claims of %d files, want 3: two that are full and the open one", got)
		}
	})
}
