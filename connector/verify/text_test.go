package verify

import "testing"

func TestBoundIsRoundedUp(t *testing.T) {
	for share, want := range map[float64]string{1: "100 %", 0.7763932: "78 %", 0.0998: "10 %", 0.000998: "0.1 %", 0.00154321: "0.16 %", 3e-8: "0.000003 %"} {
		if got := percent(share); got != want {
			t.Errorf("%g: got %s, want %s", share, got, want)
		}
	}
}
