//go:build page

package page

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// screenshots is where the states are pictured, for people to look at.
var screenshots = flag.String("screenshots", "", "folder for pictures of the page in every state")

// patience is how long something may take to show, on a busy machine too.
const patience = 30 * time.Second

// tab is one browser with the page open.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // it is the browser's handle

	mu     sync.Mutex
	faults []string // what the browser complained of
}

// open starts a browser and loads the page. That nothing in it failed, a
// refusal of its own policy included, is checked at the end.
func open(t *testing.T, address string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("lang", "en"))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	b := &tab{t: t}
	var cancel context.CancelFunc
	b.ctx, cancel = chromedp.NewContext(allocated, chromedp.WithListener(b.heard))
	t.Cleanup(cancel)
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(1280, 900)); err != nil { // the browser lives as long as this context
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(address))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.faults) > 0 {
			t.Errorf("the browser complains: %q, want nothing", b.faults)
		}
	})
	return b
}

// heard notes exceptions, and errors but those of a connection that a test ended.
func (b *tab) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.faults = append(b.faults, e.Entry.Text)
		}
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval is what an expression is in the page.
func eval[T any](b *tab, expression string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		b.t.Fatalf("%s: %v", expression[:min(len(expression), 80)], err)
	}
	return value
}

// awaits waits until an expression is true in the page.
func (b *tab) awaits(what, expression string) {
	b.t.Helper()
	look := time.NewTicker(50 * time.Millisecond) // the browser's own waiting is what the page's policy forbids
	defer look.Stop()
	late := time.After(patience)
	for !eval[bool](b, expression) {
		select {
		case <-late:
			b.t.Fatalf("waited in vain: %s; the page shows\n%s", what, eval[string](b, "document.body.innerText"))
		case <-look.C:
		}
	}
}

// shows waits for words anywhere on the page.
func (b *tab) shows(words string) {
	b.t.Helper()
	quoted, _ := json.Marshal(words) // a string always can be
	b.awaits("waiting for "+words, `document.body.innerText.replaceAll("\u00a0", " ").includes(`+string(quoted)+")")
}

// colours has the reader prefer a scheme, light or dark.
func (b *tab) colours(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// axe is that of package.json's lock, put there by npm ci.
const axe = "axe/node_modules/axe-core/axe.min.js"

// finding is one rule of axe that the page breaks.
type finding struct {
	ID    string
	Help  string
	Nodes []struct {
		Target         []string
		FailureSummary string
	}
}

// sizes are those of the windows that the page is looked at in.
var sizes = []struct {
	name          string
	width, height int64
}{{"desktop", 1280, 900}, {"phone", 390, 844}}

// judged has the state pictured and judged: wide and narrow, light and dark.
func (b *tab) judged(state string) {
	b.t.Helper()
	rules, err := os.ReadFile(axe)
	if err != nil {
		b.t.Fatalf("%v; make test-page installs it", err)
	}
	eval[chromedp.Void](b, string(rules))
	for _, size := range sizes {
		for _, scheme := range []string{"light", "dark"} {
			name := strings.Join([]string{state, size.name, scheme}, "-")
			b.do(chromedp.EmulateViewport(size.width, size.height), b.colours(scheme))
			if wide := eval[int64](b, "document.documentElement.scrollWidth"); wide > size.width {
				b.t.Errorf("%s: the page is %d pixels wide, want at most %d", name, wide, size.width)
			}
			for _, f := range eval[[]finding](b, "axe.run().then(r => r.violations)", chromedp.EvalAwaitPromise) {
				b.t.Errorf("%s: axe: %s: %s: %s", name, f.ID, f.Help, fmt.Sprint(f.Nodes))
			}
			b.picture(name)
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900), b.colours("light"))
}

// pictured has the state pictured as judged does.
func (b *tab) pictured(state string) {
	b.t.Helper()
	for _, size := range sizes {
		for _, scheme := range []string{"light", "dark"} {
			b.do(chromedp.EmulateViewport(size.width, size.height), b.colours(scheme))
			b.picture(strings.Join([]string{state, size.name, scheme}, "-"))
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900), b.colours("light"))
}

func (b *tab) phone() { b.do(chromedp.EmulateViewport(390, 844)) }

func (b *tab) desktop() { b.do(chromedp.EmulateViewport(1280, 900)) }

func (b *tab) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
