package schemas

import (
	"testing"
)

func TestEncodingMeansWhatItsNameSays(t *testing.T) {
	for name, want := range map[string]string{
		"ISO-8859-1": "caf\xe9", "latin1": "caf\xe9", "windows-1252": "caf\xe9", "cp1252": "caf\xe9",
		"UTF-16": "\x00c\x00a\x00f\x00\xe9", "utf-16le": "c\x00a\x00f\x00\xe9\x00", "IBM850": "caf\x82",
	} {
		e, err := Encoding(name)
		if err != nil {
			t.Errorf("%s: got %v, want an encoding", name, err)
			continue
		}
		if got, err := e.NewEncoder().String("café"); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if e, _ := Encoding("ISO-8859-1"); e != nil {
		if got, err := e.NewEncoder().String("€"); err == nil {
			t.Errorf("€ in ISO-8859-1: got %q, want an error: that is windows-1252", got)
		}
	}
	for _, name := range []string{"", "UTF-8", "utf8"} {
		if e, err := Encoding(name); e != nil || err != nil {
			t.Errorf("%q: got %v, %v, want none: it is Go's own", name, e, err)
		}
	}
	for _, name := range []string{"klingon", "ISO-2022-JP", "HZ-GB-2312", "replacement", "UTF-7"} {
		if _, err := Encoding(name); err == nil {
			t.Errorf("%s: got no error, want that it cannot be written", name)
		}
	}
}
