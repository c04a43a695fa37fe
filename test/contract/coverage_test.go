package contract

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// row is a line of COVERAGE.md.
type row struct {
	line  int
	cells []string // interface, client, sandbox, tests
}

func coverage(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("COVERAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	return rows(string(text))
}

// rows are the lines of all tables but their heads.
func rows(text string) []row {
	var all []row
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| interface |") {
			continue
		}
		r := row{line: i + 1}
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			r.cells = append(r.cells, strings.TrimSpace(cell))
		}
		all = append(all, r)
	}
	return all
}

var (
	quoted      = regexp.MustCompile("`([^`]+)`")
	declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
)

// tree is what the module has: its Go files as room/file.go, its tests as
// room.TestName, where a room is the last part of a folder.
func tree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && len(entry.Name()) > 2) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		room := filepath.Base(filepath.Dir(path))
		found[room+"/"+entry.Name()] = true
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, match := range declaration.FindAllSubmatch(text, -1) {
				found[room+"."+string(match[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCoverageIsCompleteAndTrue(t *testing.T) {
	for _, mistake := range mistakes(coverage(t), tree(t), document(t)) {
		t.Error(mistake)
	}
}

// mistakes are what makes a table incomplete or untrue.
func mistakes(table []row, exists map[string]bool, doc *openapi3.T) []string {
	var found []string
	named := map[string]bool{}
	numbers := map[string]bool{}
	for _, r := range table {
		if len(r.cells) != 4 || slices.Contains(r.cells, "") {
			found = append(found, fmt.Sprintf("line %d: four filled cells are wanted: %q", r.line, r.cells))
			continue
		}
		if number, _, is := strings.Cut(r.cells[0], ":"); is && strings.HasPrefix(number, "Operation ") {
			numbers[number] = true
		}
		for _, name := range quoted.FindAllStringSubmatch(r.cells[0], -1) {
			named[name[1]] = true
		}
		tests := quoted.FindAllStringSubmatch(r.cells[3], -1)
		if len(tests) == 0 {
			found = append(found, fmt.Sprintf("line %d: no test is named", r.line))
		}
		places := quoted.FindAllStringSubmatch(r.cells[1]+r.cells[2], -1)
		for _, thing := range slices.Concat(tests, places) {
			if !exists[thing[1]] {
				found = append(found, fmt.Sprintf("line %d: %s does not exist", r.line, thing[1]))
			}
		}
	}
	for id, operation := range operations(doc) {
		if n := fmt.Sprintf("Operation %d", number(operation)); !numbers[n] {
			found = append(found, fmt.Sprintf("%s (%s) has no row", n, id))
		}
	}
	for _, name := range fields(doc) {
		if !named[name] {
			found = append(found, fmt.Sprintf("the field %s has no row", name))
		}
	}
	return found
}

// fields are the names of all properties that the document's schemas have.
func fields(doc *openapi3.T) []string {
	names := map[string]bool{}
	seen := map[*openapi3.Schema]bool{}
	var walk func(*openapi3.SchemaRef)
	walk = func(ref *openapi3.SchemaRef) {
		if ref == nil || ref.Value == nil || seen[ref.Value] {
			return
		}
		seen[ref.Value] = true
		for name, property := range ref.Value.Properties {
			names[name] = true
			walk(property)
		}
		walk(ref.Value.Items)
		walk(ref.Value.AdditionalProperties.Schema)
		for _, other := range slices.Concat(ref.Value.AllOf, ref.Value.AnyOf, ref.Value.OneOf) {
			walk(other)
		}
	}
	for _, schema := range doc.Components.Schemas {
		walk(schema)
	}
	for _, operation := range operations(doc) {
		if operation.RequestBody != nil {
			for _, media := range operation.RequestBody.Value.Content {
				walk(media.Schema)
			}
		}
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// The judge of the table, judged.
func TestCoverageNoticesEveryMistake(t *testing.T) {
	doc, exists := document(t), tree(t)
	text, err := os.ReadFile("COVERAGE.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(fields(doc)); n < 60 {
		t.Errorf("got %d fields in the document, want all of them, more than 60", n)
	}
	for change, want := range map[[2]string]string{
		{"| Operation 6: ", "| Operation: "}:                         "Operation 6 (getRecord) has no row",
		{"`webhookPushType`", "webhookPushType"}:                     "the field webhookPushType has no row",
		{"| `service/token.go` |", "| |"}:                            "four filled cells are wanted",
		{"`service/imports.go`", "`service/hooks.go`"}:               "service/hooks.go does not exist",
		{"`service.TestReferencesAreRead`", "`service.TestNothing`"}: "service.TestNothing does not exist",
		{"`sandbox.TestTokensExpire`", "sandbox.TestTokenDoes"}:      "",
	} {
		broken := strings.ReplaceAll(string(text), change[0], change[1])
		if broken == string(text) {
			t.Errorf("%s is not in the table", change[0])
		}
		got := strings.Join(mistakes(rows(broken), exists, doc), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%v: got %q, want %q", change, got, want)
		}
	}
}
