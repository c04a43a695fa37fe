package router_test

import (
	"strings"
	"testing"

	"github.com/feedsink/feedsink/router"
)

func TestBytesReadsSizes(t *testing.T) {
	for text, want := range map[string]router.Bytes{
		"256MiB": 256 << 20, "20GiB": 20 << 30, "1000": 1000, "0": 0, "5 kB": 5000, "2TB": 2e12, "7B": 7, "3KiB": 3 << 10,
	} {
		if got, err := router.ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: got %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"MiB", "1.5GiB", "-1", "many", "9223372036854775808", "9007199254740992KiB", "1PB", ""} {
		if got, err := router.ParseBytes(text); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

func TestBytesStringReadsBack(t *testing.T) {
	for b, want := range map[router.Bytes]string{0: "0", 1000: "1000", 1024: "1KiB", 256 << 20: "256MiB", 3 << 40: "3TiB", 1<<30 + 1: "1073741825"} {
		if got := b.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(b), got, want)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"256MiB", "20 GiB", "1000", "1.5kB", "-1", "B", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := router.ParseBytes(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "size ") {
				t.Fatalf("error: got %v, want one that names the size", err)
			}
			return
		}
		if again, err := router.ParseBytes(b.String()); err != nil || again != b || b < 0 {
			t.Fatalf("%q: got %d, written as %s and read as %d (%v)", text, b, b, again, err)
		}
	})
}
