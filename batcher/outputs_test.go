package batcher

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedsink/feedsink/batcher/contract"
	"github.com/feedsink/feedsink/batcher/rejects"
	"github.com/feedsink/feedsink/batcher/spool"
	"github.com/feedsink/feedsink/schemas"
)

// notThere is what the client makes of a 404.
var notThere = &refusal{words: "no output files"}

// askedFor counts how often the output files were asked for, and returns the other
// lines.
func askedFor(lines []string) (asked int, rest []string) {
	for _, line := range lines {
		if strings.Contains(line, "output files of") {
			asked++
		} else {
			rest = append(rest, line)
		}
	}
	return asked, rest
}

// wantHalted checks that customers is halted, and that the reason says so.
func (w *world) wantHalted(words ...string) {
	w.t.Helper()
	reason, halted := w.b.Halted("customers")
	if !halted {
		w.t.Errorf("halted: got false, want true")
	}
	for _, word := range words {
		if !strings.Contains(reason, word) {
			w.t.Errorf("reason: got %q, want it to say %q", reason, word)
		}
	}
}

func TestOutputFilesThatAreNotThereYetAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,a,error\n1,x,bad\n")
		w.outputs = notThere
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "y"))
		time.Sleep(time.Hour + 5*time.Minute) // the file goes after an hour
		asked, lines := askedFor(w.transcript())
		if got := lines[len(lines)-1]; asked < 5 || !strings.Contains(got, "poll e1: FINISHED") {
			t.Errorf("after five minutes: got asked %d times and then %q, want some times and nothing further", asked, got)
		}
		w.goesOn()
		w.change(func() { w.outputs = nil })
		time.Sleep(2 * time.Minute)
		_, lines = askedFor(w.transcript())
		if len(lines) != 2 || !strings.Contains(lines[0], "reject 100 of e1: bad") || !strings.Contains(lines[1], "confirm") {
			t.Errorf("once the files are there: got %q, want the dead letter, then the confirmation", lines)
		}
		w.wantSpool()
	})
}

func TestMappingHaltsWhileRowsInErrorAreNotNamed(t *testing.T) {
	for _, tc := range []struct {
		name    string
		inError int64
		outputs error
		files   string
		reason  string
	}{
		{"no output files", 1, notThere, "", "1 row in error"},
		{"no number of rows in error, no output files", -1, notThere, "", "does not say how many rows are in error"},
		{"no number of rows in error, nothing in the output files", -1, nil, "-", "does not say how many rows are in error"},
		{"empty output files", 1, nil, "-", "1 row in error"},
		{"a header alone", 1, nil, "k,error\n", "name 0 of the 1 row in error"},
		{"fewer rows than were counted", 3, nil, "k,error\n1,bad\n", "name 1 of the 3 rows in error"},
		{"JSON", 1, nil, "{\n  \"error\": \"not ready\",\n  \"code\": 7\n}\n", "cannot be read"},
		{"lines of text", 1, nil, "Sorry\nThere are no files.\nTry again.\n", "name 0 of the 1 row in error by a key"},
		{"lines of text beside rows", 2, nil, "k,error\n1,bad\n,\n,\n", "name 1 of the 2 rows in error by a key"},
		{"more rows than were counted, and nothing says that they are in error", 1, nil, "k,a\n1,x\n2,y\n", "name 2 rows, but 1 row is in error"},
		{"no CSV", 1, nil, "PK\x03\x04", "cannot be read"},
		{"larger than they may be", 1, nil, "k,error\n1," + strings.Repeat("x", 2<<20), "spool.maxBytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := rejecting(t, tc.inError, tc.files)
				w.outputs = tc.outputs
				w.start(testMapping())
				w.append(write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "y"))
				time.Sleep(time.Hour + 15*time.Minute)
				_, lines := askedFor(w.transcript())
				if got := lines[len(lines)-1]; !strings.Contains(got, "poll e1: FINISHED") {
					t.Errorf("after the result: got %q, want nothing", got)
				}
				w.wantHalted(tc.reason, "execution e1", "feedsink imports release --mapping customers")
				if got := w.b.Status()[0].Import; got.Step != contract.Halting || !got.Loaded {
					t.Errorf("import: got %+v, want it halted, and its file loaded", got)
				}
			})
		})
	}
}

// TestRowsThatAreMarkedAsInErrorAreDeadLettersWhateverWasCounted: so are as many as were counted,
// marked or not.
func TestRowsThatAreMarkedAsInErrorAreDeadLettersWhateverWasCounted(t *testing.T) {
	for files, inError := range map[string]int64{"k,error\n1,bad\n2,bad\n": 1, "k,status\n1,KO\n2,KO\n": 1, "k,a\n1,x\n2,y\n": 2, "k\n1\n2\n": -1} {
		synctest.Test(t, func(t *testing.T) {
			w := rejecting(t, inError, files)
			w.start(testMapping())
			w.append(write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "y"))
			time.Sleep(time.Hour + time.Minute)
			lines := strings.Join(w.transcript(), "\n")
			if !strings.Contains(lines, "reject 100 of e1") || !strings.Contains(lines, "reject 101 of e1") || !strings.Contains(lines, "confirm") {
				t.Errorf("%q, %d counted: got\n%s\nwant both as dead letters, then the confirmation", files, inError, lines)
			}
		})
	}
}

func TestOutputFilesAreAskedForTenMinutesBeforeTheMappingHalts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "")
		w.outputs = notThere
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour + 2*time.Second + rejects.Patience)
		w.goesOn()
		time.Sleep(2 * time.Minute)
		w.wantHalted(rejects.Patience.String())
		asked, _ := askedFor(w.transcript())
		if asked < 10 || asked > 30 {
			t.Errorf("asked: got %d times, want less and less often", asked)
		}
		time.Sleep(time.Hour)
		w.said() // a person has to look
	})
}

// An outage of the service tells nothing about the files.
func TestOutagesDoNotCountAsFilesThatAreNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,error\n1,bad\n")
		w.outputs = notThere
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour + 5*time.Minute)
		w.change(func() { w.outputs = &refusal{transient: true} })
		time.Sleep(24 * time.Hour)
		w.change(func() { w.outputs = notThere })
		time.Sleep(5 * time.Minute)
		w.goesOn()
		w.change(func() { w.outputs = nil })
		time.Sleep(2 * time.Minute)
		w.lastSaid("confirm")
	})
}

func TestReleaseAsksForTheOutputFilesOnceMore(t *testing.T) {
	halted := func(t *testing.T) *world {
		w := rejecting(t, 2, "k,a,error\n1,x,bad\n2,y,bad\n")
		w.outputs = notThere
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1", "a", "x"), write(schemas.Upsert, "2", "a", "y"))
		time.Sleep(2 * time.Hour)
		w.wantHalted()
		w.transcript()
		return w
	}
	release := func(w *world) []string {
		w.t.Helper()
		w.release("customers")
		time.Sleep(time.Minute)
		asked, lines := askedFor(w.transcript())
		if _, halted := w.b.Halted("customers"); halted || asked != 1 {
			w.t.Errorf("after the release: got halted %v, asked %d times, want it to go on after one look", halted, asked)
		}
		for i := range lines {
			_, lines[i], _ = strings.Cut(lines[i], " ")
		}
		return lines
	}
	synctest.Test(t, func(t *testing.T) {
		w := halted(t)
		w.change(func() { w.outputs = nil })
		wantLines(t, release(w), "reject 100 of e1: bad", "reject 101 of e1: bad", `confirm upsert 1/1 attempt 1 "e1" holds 100-101`)
		w.wantSpool()
	})
	synctest.Test(t, func(t *testing.T) {
		w := halted(t)
		wantLines(t, release(w), `unmatched customers "": "file,execution,rows\ncustomers-*.upsert.csv.gz,e1,2\n": `+givenUp,
			"2 rows of customers-*.upsert.csv.gz unmatched", `confirm upsert 1/1 attempt 1 "e1" holds 100-101`)
		w.wantSpool()
	})
	synctest.Test(t, func(t *testing.T) {
		w := halted(t)
		w.change(func() { w.outputs, w.files = nil, "k,a,error\n1,x,bad\n" })
		wantLines(t, release(w), "reject 100 of e1: bad", `unmatched customers "": "file,execution,rows\ncustomers-*.upsert.csv.gz,e1,1\n": `+givenUp,
			"1 rows of customers-*.upsert.csv.gz unmatched", `confirm upsert 1/1 attempt 1 "e1" holds 100-101`)
		w.wantSpool("customers-*.upsert.csv.gz.errors") // what there is, for a person to look at
	})
}

// Counters that account for every row leave none in error.
func TestCountersThatAccountForEveryRowNeedNoOutputFiles(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.outputs = notThere
		w.results = []contract.Results{{Status: contract.Finished, InError: -1, Inserted: 1, Updated: 1}}
		got := w.rejected(testMapping(), write(schemas.Upsert, "1"), write(schemas.Upsert, "2"))
		wantLines(t, got, `confirm upsert 1/1 attempt 1 "e1" holds 100-101`)
	})
}

func TestAdoptedImportHaltsWhileRowsInErrorAreNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "")
		w.outputs = notThere
		w.start(testMapping())
		w.adopt(w.left(103, running(1, 1)))
		time.Sleep(time.Hour)
		w.wantHalted("execution e7")
		w.log = []schemas.Write{write(schemas.Upsert, "1")}
		w.change(func() { w.outputs, w.files = nil, "k,error\n1,bad\n" })
		w.release("customers")
		time.Sleep(time.Minute)
		w.lastSaid(`confirm upsert 1/1 attempt 1 "e7" holds 100-102`)
	})
}

func TestDiscardEndsAWaitForOutputFiles(t *testing.T) {
	for name, wait := range map[string]time.Duration{"asking again": 5 * time.Minute, "halted": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := rejecting(t, 1, "k,error\n")
				w.start(testMapping())
				w.append(write(schemas.Upsert, "1"))
				time.Sleep(time.Hour + wait)
				w.transcript()
				lose(w.b, "customers")
				time.Sleep(time.Hour)
				w.said()
			})
		})
	}
}

// A retry that waits for the disk or for room does not halt the mapping.
func TestOutputFilesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := rejecting(t, 1, "k,error\n1,bad\n")
		w.outputs = spool.ErrNoRoom
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(24 * time.Hour)
		w.goesOn()
		w.change(func() { w.outputs = nil })
		time.Sleep(time.Minute)
		w.lastSaid("confirm upsert 1/1")
	})
}

func TestImportOfWhichFewerRowsWereReadThanSentIsNotConfirmed(t *testing.T) {
	fewer := func(read, inError int64) contract.Results {
		return contract.Results{Status: contract.Finished, Read: read, InError: inError, Inserted: -1, Updated: max(read, 0), Deleted: -1}
	}
	for _, tc := range []struct {
		name      string
		first     contract.Results
		confirmed bool
	}{
		{"none", fewer(0, 0), false},
		{"two of three", fewer(2, 0), false},
		{"one of three, and one more in error", fewer(1, 1), false},
		{"all", fewer(3, 0), true},
		{"a header, too", fewer(4, 0), true},
		{"all but the one in error", fewer(2, 1), true},
		{"none, but all are loaded", contract.Results{Status: contract.Finished, Inserted: 2, Updated: 1}, true},
		{"it does not say", fewer(-1, 0), true},
		{"it does not say what it has loaded", contract.Results{Status: contract.Finished, Read: 1, Inserted: -1, Updated: -1, Deleted: -1}, true},
	} {
		each(t, tc.name, func(t *testing.T, w *world) {
			w.readsNone, w.results = true, slices.Repeat([]contract.Results{tc.first}, 100)
			w.files = "k,error\n1,bad\n"
			w.start(testMapping())
			w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "2"), write(schemas.Upsert, "3"))
			time.Sleep(time.Hour + 5*time.Minute)
			if tc.confirmed {
				w.lastSaid("confirm")
				return
			}
			synctest.Wait()
			imp := w.b.Status()[0].Import
			if imp == nil || imp.LastErr == nil || !strings.Contains(imp.LastErr.Error(), "of the 3 rows that it was sent; it is asked again until 2") {
				t.Fatalf("meanwhile: got %+v, want the rows read, and when the mapping halts", imp)
			}
			time.Sleep(10 * time.Minute)
			w.wantHalted("of the 3 rows that it was sent (asked again for 10m0s)", "execution e1", "feedsink imports release")
			if got := w.b.Status()[0].Import; got.Step != contract.Halting || !got.Loaded {
				t.Errorf("import: got %+v, want it halted, and its file loaded", got)
			}
			w.release("customers")
			time.Sleep(time.Minute)
			w.lastSaid("confirm")
		})
	}
}

func TestRowsThatAreReadLateConfirmTheImport(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		w.results = []contract.Results{{Status: contract.Finished, Read: 1}, {Status: contract.Finished, Read: 1}, {Status: contract.InProgress}, {Status: contract.Finished, Read: 2}}
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"), write(schemas.Upsert, "2"))
		time.Sleep(time.Hour + 5*time.Minute)
		w.lastSaid("confirm")
	})
}

func TestAStatusThatTheInterfaceDoesNotHaveIsTold(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.results = slices.Repeat([]contract.Results{{Status: "CANCELLED"}}, 1000)
		w.start(testMapping())
		w.append(write(schemas.Upsert, "1"))
		time.Sleep(time.Hour + 5*time.Minute)
		synctest.Wait()
		if imp := w.b.Status()[0].Import; imp == nil || imp.LastErr == nil || !strings.Contains(imp.LastErr.Error(), `"CANCELLED"`) {
			t.Errorf("got %+v, want its status told", imp)
		}
	})
}
