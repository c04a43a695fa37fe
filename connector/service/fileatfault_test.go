package service

import "testing"

func TestFileThatFailsAgainIsToldByTheReason(t *testing.T) {
	for words, want := range map[string]bool{
		// of the interface, and of the sandbox
		"invalid file format":                                         true,
		"row with the wrong number of columns":                        true,
		"duplicate headers":                                           true,
		"missing file":                                                false,
		`invalid file: duplicate header "note"`:                       true,
		"invalid file: line 2: 3 columns instead of 2":                true,
		`invalid file: header "nope": the table has no field "nope"`:  true,
		`invalid file: header "nope" is not in the attribute mapping`: true,
		"invalid file: compressionType ZIP is expected, it is NONE":   true,
		"invalid file: a ZIP with one file is expected, it holds 2":   true,
		"invalid file: gzip: unexpected EOF":                          false,
		"Duplicate header: emailAddress":                              true,
		"DUPLICATE_HEADERS":                                           true,
		"The header emailAddress appears more than once":              true,
		"Column 'note' is repeated":                                   true,
		"Wrong number of columns at line 17":                          true,
		"COLUMN_COUNT_MISMATCH: line 17":                              true,
		"row 4: expected 5 columns but found 6":                       true,
		"Line #3 has too many fields (7)":                             true,
		"Unknown attribute: nickName":                                 true,
		"unknown column \"nickName\"":                                 true,
		"Header nickName not found":                                   true,
		"The attribute nickName does not exist in the table":          true,
		"Missing mandatory column customerNumber":                     true,
		"The file is not a valid CSV":                                 true,
		"Unsupported encoding":                                        true,
		"WRONG_FORMAT: file format not supported":                     true,
		"":               false,
		"internal error": false,
		"an internal error occurred while reading the file format": false,
		"timeout while checking the number of columns":             false,
		"the file could not be read, try again later":              false,
		"No such file: customers.csv":                              false,
		"database unavailable":                                     false,
		"execution aborted by an administrator":                    false,
		"the archive is corrupt":                                   false,
		"not enough storage for the file":                          false,
		"file retrieval: connection refused":                       false,
	} {
		if got := (Results{Status: Failed, Error: words}).FileAtFault(); got != want {
			t.Errorf("%q: got %v, want %v", words, got, want)
		}
	}
	if (Results{Status: Finished, Error: "duplicate headers"}).FileAtFault() {
		t.Error("FINISHED: got true, want false: nothing failed")
	}
}
