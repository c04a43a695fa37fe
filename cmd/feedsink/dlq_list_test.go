package main

import (
	"strings"
	"testing"
)

func TestReasonThatNoLetterCanHaveIsRefused(t *testing.T) {
	newHost(t)
	const known = "must be some of decode, value, no_id, conflict, not_found, rejected, import_row, is "
	for line, want := range map[string]string{
		"dlq list --reason valeu":                 "--reason: " + known + `"valeu"; did you mean "value"?`,
		"dlq discard --reason tests --code valeu": "--code: " + known + `"valeu"; did you mean "value"?`,
		"dlq replay --reason value,nonsense":      "--reason: " + known + `"nonsense"`,
	} {
		if _, code, err := command(t, strings.Fields(line)...); code != exitUsage || err == nil || err.Error() != want {
			t.Errorf("%s: got code %d, %v\nwant %d, %s", line, code, err, exitUsage, want)
		}
	}
}
