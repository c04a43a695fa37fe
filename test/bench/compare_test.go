package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestPlainLoopSendsTheFloorsBody(t *testing.T) {
	key := customer(42)
	for variant := range variants {
		body, err := plainBody(event(key, variant))
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(appendBody(nil, key, variant), &want); err != nil {
			t.Fatal(err)
		}
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Fatalf("variant %d: got %s, want %s", variant, g, w)
		}
	}
}

func TestRivalThatCannotBeHadIsToldApart(t *testing.T) {
	f := &field{dir: t.TempDir()}
	for what, c := range map[string]struct {
		tools, fetch []string
		notHere      bool
	}{
		"without its tool":    {[]string{"no-such-tool"}, []string{"true"}, true},
		"where nothing comes": {nil, []string{"false"}, true},
		"where it comes":      {nil, []string{"true"}, false},
	} {
		_, err := f.install(t.Context(), "camel", c.tools, c.fetch...)
		if got := errors.Is(err, errNotHere); got != c.notHere || !got && err != nil {
			t.Errorf("%s: got %v, want it said that it cannot be had: %v", what, err, c.notHere)
		}
	}
}
