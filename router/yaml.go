package router

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units of a size, longest spelling first so that a suffix match is unique.
var units = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// ParseBytes reads a size: a whole number, alone or with one of B, KiB, MiB,
// GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000).
func ParseBytes(s string) (Bytes, error) {
	digits, unit := strings.TrimSpace(s), int64(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSpace(number), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || digits[0] == '+' {
		return 0, fmt.Errorf("size %q: write a whole number with a unit, such as 256MiB", s)
	}
	if n > math.MaxInt64/uint64(unit) {
		return 0, fmt.Errorf("size %q: more than fits in 64 bits", s)
	}
	return Bytes(n) * Bytes(unit), nil
}

// String writes the size with the largest binary unit that leaves a whole
// number; ParseBytes reads it back.
func (b Bytes) String() string {
	for i := 3; i >= 0; i-- {
		if unit := Bytes(units[i].bytes); b != 0 && b%unit == 0 {
			return strconv.FormatInt(int64(b/unit), 10) + units[i].suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// UnmarshalYAML takes a size as text or as a plain number.
func (b *Bytes) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	parsed, err := ParseBytes(text)
	if err != nil {
		return err
	}
	*b = parsed
	return nil
}

// UnmarshalYAML takes a column as its bare name or as a mapping with name,
// absent and null.
func (c *Column) UnmarshalYAML(unmarshal func(any) error) error {
	// What is there is asked first: read as text, a mapping is no error but "".
	var shape any
	if err := unmarshal(&shape); err != nil {
		return err
	}
	switch shape.(type) {
	case map[string]any:
		return c.unmarshalMembers(unmarshal)
	case []any, nil:
		return errors.New("a column is a name or a mapping with name, absent and null")
	}
	var name string
	if err := unmarshal(&name); err != nil {
		return err
	}
	*c = Column{Name: name}
	return nil
}

// unmarshalMembers reads by hand what the struct's tags say: decoding into a
// struct stumbles over the key null, which YAML takes for nothing.
func (c *Column) unmarshalMembers(unmarshal func(any) error) error {
	var members map[string]string
	if err := unmarshal(&members); err != nil {
		return err
	}
	*c = Column{}
	for key, text := range members {
		switch key {
		case "name":
			c.Name = text
		case "absent":
			c.Absent = text
		case "null", "": // the same again: a bare null comes as no key at all
			c.Null = text
		default:
			return fmt.Errorf("unknown key %q; %s", key, suggest(key, "name", "absent", "null"))
		}
	}
	return nil
}
