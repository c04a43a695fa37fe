//go:build !image

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestEverySignalToStopDrains: the call in flight is finished, its offset is
// committed, and the member leaves the group.
func TestEverySignalToStopDrains(t *testing.T) {
	t.Parallel()
	for _, stop := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(stop.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			sink := w.run(head + deadLetters + mappings)
			address := sink.admin(w)
			w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
			w.service.SetLatency(4, 500*time.Millisecond)
			w.produce(order("o1", "PAID", 1))
			w.until("the call is in flight", func() bool { return w.service.CallCount(4) == 1 })
			if err := sink.signal(stop); err != nil {
				t.Fatal(err)
			}
			if err := sink.wait(); err != nil {
				t.Errorf("run after %v: %v", stop, err)
			}
			if got := w.lag("immediate", "orders"); got != 0 {
				t.Errorf("got %d records that are not committed, want none", got)
			}
			if got := w.service.CallCount(4); got != 1 {
				t.Errorf("calls: got %d, want 1", got)
			}
		})
	}
}

// rewrite changes the file that a process reads, in one step, as a ConfigMap is changed.
func (w *world) rewrite(yaml string) {
	w.t.Helper()
	next := filepath.Join(w.dir, "next.yaml")
	if err := os.WriteFile(next, []byte(w.through.in(yaml)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(w.dir, "feedsink.yaml")); err != nil {
		w.t.Fatal(err)
	}
}

// TestRunReloadsWhenItIsTold: by SIGHUP, by the command, and with --watch by itself. A
// wrong file and the right one after it are told by each.
func TestRunReloadsWhenItIsTold(t *testing.T) {
	t.Parallel()
	before, after := routed(nowByCall), routed(nowByFile)
	for what, tell := range map[string]struct {
		flags []string
		how   func(w *world, sink *process, address string)
	}{
		"SIGHUP": {nil, func(_ *world, sink *process, _ string) {
			if err := sink.signal(syscall.SIGHUP); err != nil {
				t.Error(err)
			}
		}},
		"the command": {nil, func(w *world, _ *process, address string) {
			out, code := execute(w.t, "reload", "--server", "http://"+address)
			if wrong := strings.Contains(get(w.t, address, "/metrics"), "reload_successful 0"); wrong && (code != 2 || !strings.Contains(out, "feedsink.yaml:")) ||
				!wrong && (code != 0 || out != "changed mapping orders: routes\n") {
				w.t.Errorf("reload: got exit code %d with %q", code, out)
			}
		}},
		"--watch": {[]string{"--watch"}, func(*world, *process, string) {}},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, withBothETLs)
			sink := w.runAs(before, nil, tell.flags...)
			address := sink.admin(w)
			w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
			for value, yaml := range []string{strings.Replace(before, "customTable:", "customtable:", 1), after} {
				w.rewrite(yaml)
				tell.how(w, sink, address)
				w.until("the file was read", func() bool {
					page := get(t, address, "/metrics")
					return strings.Contains(page, fmt.Sprint("feedsink_config_last_reload_successful ", value)) && (value == 0 || strings.Contains(get(t, address, "/status"), `"reload"`))
				})
			}
			calls := w.service.CallCount(4)
			w.produce(now(order("o1", "A", 1)), order("o2", "A", 1))
			w.bothSettled()
			w.ordersAre(map[string]string{"o1": "1 A", "o2": "1 A"})
			// The lanes may not have agreed yet on the new routes: then both write o1, or its file
			// goes before they do, and is followed by one of what is read again.
			if got := w.service.CallCount(4) - calls; got < 1 || got > 2 {
				t.Errorf("calls: got %d, want o2's, and no more than one of o1", got)
			}
			if got := w.service.CallCount(10); got < 1 || got > 2 {
				t.Errorf("imports: got %d, want that of o1, as the new file routes, and no more than one again", got)
			}
			if err := sink.signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := sink.wait(); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
}

// TestRunSaysWhatCheckWarnsOfAndWhatBecomesOfEachReload: warnings once each, the result of a
// reload each time that one is asked for.
func TestRunSaysWhatCheckWarnsOfAndWhatBecomesOfEachReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	warned := func(names ...string) string {
		skip := ""
		for _, name := range names {
			skip += "{when: '" + name + " == 1', lane: skip}, "
		}
		return strings.Replace(head+deadLetters, "dlq:", "# moved\ndlq:", len(names)-1) +
			"mappings:\n  - name: orders\n    topics: [\"${PREFIX}orders\"]\n    customTable: orders\n    key: businessKey\n" +
			"    fields: [{from: number, to: businessKey}, {from: status, to: status}]\n    routes: [" + skip + "{lane: immediate}]\n"
	}
	const warning, refused = `level=WARN msg="the configuration can work, but says what is likely not meant"`, "the configuration was not reloaded"
	sink := w.run(warned("numbr"))
	address := sink.admin(w)
	w.until("the sink is ready", func() bool { return get(t, address, "/readyz") == "ok\n" })
	says := func(text string, times int) {
		t.Helper()
		w.until(fmt.Sprintf("%d lines say %s", times, text), func() bool { return strings.Count(sink.out.String(), text) >= times })
		if got := strings.Count(sink.out.String(), text); got != times {
			t.Errorf("got %d lines that say %s, want %d", got, text, times)
		}
	}
	reload := func() {
		t.Helper()
		if err := sink.signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	says(warning, 1)
	if out := sink.out.String(); !strings.Contains(out, `.yaml:`) || !strings.Contains(out, `mappings[0].routes[0].when: no field of the mapping reads \"numbr\"`) {
		t.Errorf("got no place and no warning of numbr in\n%s", out)
	}
	w.rewrite(warned("numbr", "statsu"))
	reload()
	says("msg=\"configuration reloaded\"", 1)
	says(warning, 2) // the one is new, the other has moved
	w.rewrite(warned("numbr") + "nonsense: 1\n")
	for i := range 3 {
		reload()
		says(refused, i+1)
	}
	sink.terminate(t)
	says(refused, 3)
	says(warning, 2)
	for line := range strings.Lines(sink.out.String()) {
		if strings.Contains(line, refused) && strings.Contains(line, "latest=") {
			t.Errorf("got %swant it when it was asked for, and not held back", line)
		}
	}
}
