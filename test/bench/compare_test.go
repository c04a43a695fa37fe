package main

import (
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
