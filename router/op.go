package router

import (
	"fmt"

	"github.com/feedsink/feedsink/schemas"
)

// operation is what the records of a mapping with fields do, tombstones apart.
type operation struct {
	always  schemas.Op  // 0: computed
	compute *expression // comes to an op's word
}

// of is the op of a record. A record that does not say is an upsert, as an
// event without op is.
func (o *operation) of(look *subject) (schemas.Op, *Reject) {
	if o == nil {
		return schemas.Upsert, nil
	}
	if o.always != 0 {
		return o.always, nil
	}
	v, rule := o.compute.value(look)
	if rule != "" {
		return 0, badValue("op", rule)
	}
	if v.Kind() == schemas.Absent {
		return schemas.Upsert, nil
	}
	if op, ok := schemas.ParseOp(v.Text()); ok && v.Kind() == schemas.String {
		return op, nil
	}
	return 0, badValue("op", "must come to upsert, patch, create or delete")
}

// compileOp compiles `op`: one of the words, or an expression.
func (s *scope) compileOp() {
	mapped := len(s.m.Fields) > 0
	switch {
	case s.m.Op == "" && (!mapped || orDefault(s.m.Envelope, "none") != "none"):
		return // the event or the envelope says it
	case !mapped:
		s.problem("op", "remove it, or add fields", "events without fields say their op themselves")
		return
	}
	s.c.op = &operation{}
	var known bool
	if s.c.op.always, known = schemas.ParseOp(orDefault(s.m.Op, "upsert")); known {
		return
	}
	compute, err := compileExpression(s.m.Op)
	if err != nil {
		s.conditionProblem("op", err)
	}
	s.c.op.compute = compute
}

// possible refuses routes on which every record of the mapping would end as a
// dead letter.
func (s *scope) possible() {
	if s.c.op == nil || s.c.op.always == 0 {
		return
	}
	op := s.c.op.always
	for i, r := range s.c.routes {
		path := fmt.Sprintf("routes[%d].lane", i)
		w := schemas.Write{Op: op}
		if s.c.profileID != nil {
			w.ProfileID = "some" // a record may have one
		}
		switch {
		case s.c.Import(op) != nil:
		case r.lane == schemas.Batch:
			s.problem(path, "add imports."+op.String(), "every record is %s %v, and no import loads it", article(op), op)
		case s.c.callable(&w):
		case op == schemas.Create:
			s.problem(path, "add imports.create", "every record is a create, and a profile is created only by an import")
		default:
			s.problem(path, "add profileId, the path of the service's id, or imports."+op.String(),
				"every record is %s %v, and a call needs the profile's id", article(op), op)
		}
	}
}

func article(op schemas.Op) string {
	if op == schemas.Upsert {
		return "an"
	}
	return "a"
}
