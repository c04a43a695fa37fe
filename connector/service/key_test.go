package service

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestKeyRotatedOnDiskIsTakenUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api-key")
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var valid atomic.Value
	valid.Store("first")
	var token atomic.Value
	token.Store("T1")
	s := &service{
		key:     func(got string) bool { return got == valid.Load() },
		revoked: func(got string) bool { return got != token.Load() },
		calls:   func(http.ResponseWriter, *http.Request) {},
	}
	c := s.start(t)
	c.tokens.key = func() (Secret, error) {
		text, err := os.ReadFile(file)
		return NewSecret(string(text)), err
	}
	write("first")
	if err := c.DeleteRecord(t.Context(), "orders", "k"); err != nil {
		t.Fatal(err)
	}
	write("second")
	valid.Store("second")
	token.Store("T2")
	if err := c.DeleteRecord(t.Context(), "orders", "k"); err != nil {
		t.Errorf("after the rotation: got %v, want success", err)
	}
}

func TestUnusableKeysAreUnauthorizedAndUnsaid(t *testing.T) {
	s := &service{}
	keys := map[string]func() (Secret, error){
		"missing": func() (Secret, error) { return Secret{}, os.ErrNotExist },
		"empty":   func() (Secret, error) { return NewSecret(" \n"), nil },
		"broken":  func() (Secret, error) { return NewSecret("hunter\n2"), nil },
	}
	for name, key := range keys {
		c := s.start(t)
		c.tokens.key = key
		err := c.Authenticate(t.Context())
		if e := errorOf(t, err); e.Kind() != Unauthorized || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: got %v (%v), want unauthorized without the key", name, err, e.Kind())
		}
	}
	if n := s.fetches.Load(); n != 0 {
		t.Errorf("got %d token requests, want none", n)
	}
}
