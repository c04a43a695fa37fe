package setup

import "slices"

// changes are what the records of a table do to its rows.
type changes struct {
	cases []opCase // the first that holds
	rest  string   // the op of all others; "" where the cases are all that there are
	known string   // the condition for the others, where further kinds may come; "": none may
	opBy  string   // which kinds of event there are, where ops depend on them
	notes []string // where a wrong guess loses data
	said  []string // paths of what says the op: the table has no such field

	deletes []bool // by row: it is a delete
	partial []bool // by row: it names only some of what the others do
}

// opCase is an op and the condition for it.
type opCase struct {
	when, op string
	byKind   bool // the condition names kinds
}

// op is the word or the expression for all of it, "" for upsert.
func (c *changes) op() string {
	if len(c.cases) == 0 && c.known == "" {
		if c.rest == opUpsert {
			return ""
		}
		return c.rest
	}
	ofKinds, others := c.split()
	expression := "nil"
	switch {
	case c.rest == "":
	case c.known == "":
		expression = casesOr(others, `"`+c.rest+`"`)
	case len(others) == 0:
		expression = c.known + ` ? "` + c.rest + `" : nil`
	default:
		expression = c.known + ` ? (` + casesOr(others, `"`+c.rest+`"`) + `) : nil`
	}
	return casesOr(ofKinds, expression)
}

// split tells the cases of kinds, which come first, from those of what else records say.
func (c *changes) split() (ofKinds, others []opCase) {
	for _, o := range c.cases {
		if o.byKind {
			ofKinds = append(ofKinds, o)
		} else {
			others = append(others, o)
		}
	}
	return ofKinds, others
}

// casesOr is the expression of cases, and of what is left.
func casesOr(cases []opCase, rest string) string {
	for _, o := range slices.Backward(cases) {
		rest = o.when + ` ? "` + o.op + `" : ` + rest
	}
	return rest
}

// has reports whether some records are of an op.
func (c *changes) has(op string) bool {
	return c.rest == op || slices.ContainsFunc(c.cases, func(o opCase) bool { return o.op == op })
}

const opUpsert, opPatch, opMerge, opDelete = "upsert", "patch", "merge", "delete"

// unseen reports whether the op leaves kinds to nil.
func (t *table) unseen() bool { return t.known != "" || t.rest == "" }

// ends are the kinds that may mean that the row goes, and are not taken for it.
func (t *table) ends() (ends []kind) {
	if t.by == nil || t.shape != plain {
		return nil
	}
	for _, k := range t.by.kinds {
		if slices.Contains(endVerbs, k.verb) {
			ends = append(ends, k)
		}
	}
	return ends
}
