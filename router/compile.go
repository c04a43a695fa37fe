package router

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/feedsink/feedsink/router/fieldpath"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// mappingCompiler compiles one mapping and reports what of it cannot be compiled.
type mappingCompiler struct {
	problem.Reporter
	warnings problem.Reporter
	m        *Mapping
	c        *Compiled
	all      []Mapping // those of the configuration
	tests    tests
	left     formula // of records that the mapping's when, and the routes so far, leave
}

func compile(all []Mapping, index int, problems *[]problem.Problem) *Compiled {
	m := &all[index]
	c := &Compiled{Name: m.Name, Index: index, KeyName: m.Key, Config: *m}
	path := fmt.Sprintf("mappings[%d]", index)
	b := &mappingCompiler{Reporter: problem.NewReporter(path, problems), warnings: problem.NewReporter(path, &c.Warnings), m: m, c: c, all: all}
	c.Table = schemas.Table{Name: m.ProfileTable}
	if m.CustomTable != "" {
		c.Table = schemas.Table{Name: m.CustomTable, Custom: true}
	}
	c.keyFormat = m.keyDecoding()
	if m.ProfileID != "" {
		c.profileID = b.source("profileId", m.ProfileID)
	}
	b.types()
	if at, err := values.ParsePlace(c.Table, m.Key); err == nil { // else package check says so
		c.keyTarget = c.target(at)
	}
	b.op()
	for i := range m.Fields {
		b.field(fmt.Sprintf("fields[%d]", i), i)
	}
	ofMember := func(f field) bool { return len(f.columns) > 0 && f.columns[0] != "" }
	ofElement := func(f field) bool {
		return f.from != nil && f.from.root == "" && f.from.steps[0].Kind != fieldpath.Member
	}
	c.ofObjects = slices.ContainsFunc(c.fields, ofMember) && !slices.ContainsFunc(c.fields, ofElement)
	if i := slices.IndexFunc(c.fields, func(f field) bool { return f.key }); i >= 0 {
		c.key = &c.fields[i]
	} else if len(c.fields) > 0 && m.Key != "" {
		b.Report("fields", fmt.Sprintf("add {from: …, to: %s}", m.Key), "none of them fills the key %q", m.Key)
	}
	if m.When != "" {
		c.when, b.left = b.condition("when", m.When)
		b.warnOfDeletes()
	}
	b.routes()
	b.lanes()
	b.constants()
	if c.batch {
		b.columns()
	}
	c.Fingerprint, c.Routes = fingerprint(m), routesFingerprint(c)
	c.evaluations.New = func() any { return &evaluation{env: make(map[string]any, len(c.reads))} }
	return c
}

// types compiles what is said of the table's attributes or properties.
func (b *mappingCompiler) types() {
	b.c.types = make(map[string]*values.Converter, len(b.m.Types))
	for i, t := range b.m.Types {
		path := fmt.Sprintf("types[%d]", i)
		place, err := values.ParsePlace(b.c.Table, t.Name)
		target := values.NewTarget(place, nil)
		switch {
		case err != nil:
			b.Report(path+".name", "", "%v", err)
		case place.Section != schemas.Attributes && place.Section != schemas.Properties:
			b.Report(path+".name", "", "%q: the type of subscriptions, segmentations and dataCollection is fixed", t.Name)
		case target.Computed():
			b.Report(path+".name", "", "%q: the type of what the service computes is fixed", t.Name)
		case slices.IndexFunc(b.m.Types, func(u Type) bool { return u.Name == t.Name }) < i:
			b.Report(path+".name", "", "%q is named twice", t.Name)
		default:
			if typed := values.New(b.Below(path), values.Spec{As: t.As, Of: t.Of, Length: t.Length}, &target); typed != nil {
				b.c.types[place.Name] = typed
			}
		}
	}
}

// op compiles `op`: one of the words, or an expression.
func (b *mappingCompiler) op() {
	mapped := len(b.m.Fields) > 0
	switch {
	case b.m.Op == "" && (!mapped || b.m.Envelope == debezium):
		return // the event or the envelope says it
	case !mapped:
		b.Report("op", "remove it, or add fields", "events without fields say their op themselves")
		return
	}
	b.c.op = &operation{}
	var known bool
	if b.c.op.always, known = schemas.ParseOp(cmp.Or(b.m.Op, "upsert")); !known {
		if err := b.misspeltOp(b.m.Op); err != nil {
			reportExpression(b.Reporter, "op", err, false)
			return
		}
		if b.c.op.compute = b.expression("op", b.m.Op); b.c.op.compute != nil {
			b.c.op.refuses = namesNil(b.m.Op)
			b.warnOfNames("op", b.c.op.compute.reads)
		}
	}
}

// expression compiles one, nil where it is none.
func (b *mappingCompiler) expression(path, text string) *expression {
	e, err := compileExpression(text)
	if err != nil {
		reportExpression(b.Reporter, path, err, false)
		return nil
	}
	return e
}

// source compiles a path, nil where it is none.
func (b *mappingCompiler) source(at, text string) *source {
	from, err := newSource(text)
	if err != nil {
		b.Report(at, `write names separated by dots, elements as [0] or [*], other names as ["a.b"]`, "%q is not a path: %v", text, err)
	}
	return from
}

func (b *mappingCompiler) field(path string, i int) {
	f := &b.m.Fields[i]
	place, err := values.ParsePlace(b.c.Table, f.To)
	compiled := field{label: cmp.Or(f.From, f.To), Target: b.c.target(place), absent: Omit, null: AsNull}
	switch {
	case err != nil:
		b.Report(path+".to", "", "%v", err)
	case slices.IndexFunc(b.m.Fields, func(g Field) bool { return g.To == f.To }) < i:
		b.Report(path+".to", "", "%q is filled twice", f.To)
	case compiled.Computed() && !b.c.op.mayCreate():
		b.Report(path+".to", "write op: create and imports.create for a mapping that creates profiles",
			"%s %s, and no record of this mapping does that", f.To, values.RuleComputed)
	}
	compiled.key = f.To == b.m.Key
	compiled.fills = !compiled.key || !b.c.Table.Custom
	compiled.convert = values.New(b.Below(path),
		values.Spec{
			As: f.As, Of: f.Of, Scale: f.Scale, Format: f.Format, Timezone: f.Timezone,
			True: f.True, False: f.False, Decimal: f.Decimal,
		}, &compiled.Target)
	compiled.checked = place.Section == schemas.Attributes && !compiled.Computed() && compiled.convert != nil && !compiled.Typed()
	b.origin(path, f, &compiled)
	from := compiled.from
	compiled.plain = from != nil && from.root == "" && len(from.steps) == 1 && from.steps[0].Kind == fieldpath.Member &&
		compiled.convert == nil && compiled.TakesAnyText() && compiled.fills
	b.missing(path, f, &compiled)
	b.c.fields = append(b.c.fields, compiled)
}

// origin compiles the one of from, value and expr that the field has.
func (b *mappingCompiler) origin(path string, f *Field, into *field) {
	given := 0
	for _, text := range []string{f.From, string(f.Value), f.Expr} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1:
		b.Report(path, "keep one of them", "from, value and expr are given together")
	case f.Value != "":
		into.constant = b.constant(path+".value", f.Value, into)
	case f.Expr != "":
		if into.compute = b.expression(path+".expr", f.Expr); into.compute != nil {
			b.warnOfFieldNames(path+".expr", into.compute.reads)
			for _, p := range into.compute.reads {
				switch {
				case p.ofRecord():
				case p.member() == "":
					b.Report(path+".expr", "write value.NAME", "value is the whole value; name the field of it that is meant")
				default:
					into.columns = append(into.columns, p.member())
				}
			}
		}
	case f.From == "":
		b.Report(path+".from", "write from, or value for a constant, or expr for an expression", "missing")
	default:
		into.from = b.source(path+".from", f.From)
		if into.from != nil && into.from.root == "" {
			into.columns = []string{into.from.steps[0].Name}
		}
		into.attribute = b.m.Envelope == CloudEvents && into.from.readsAttribute()
	}
}

// constant is a literal, converted and checked as a value of the field is.
func (b *mappingCompiler) constant(path string, l Literal, into *field) schemas.Value {
	v, err := schemas.NewJSON().Decode([]byte(l))
	if err != nil {
		b.Report(path, "write text, a number, true or false", "%q is not a constant", string(l))
		return v
	}
	v, rule := into.Constant(v, into.convert)
	if rule != "" {
		b.Report(path, "", "%s %s", string(l), rule)
	}
	return v
}

// missing compiles what becomes of a value that is missing or null.
func (b *mappingCompiler) missing(path string, f *Field, into *field) {
	if f.Value != "" && (f.Default != "" || f.Absent != "" || f.Null != "") {
		b.Report(path+".value", "remove default, absent and null", "a constant is never missing")
	}
	if f.Default != "" {
		into.absent, into.null = useDefault, useDefault
		into.byDefault = b.constant(path+".default", f.Default, into)
	}
	for _, c := range []struct {
		key    string
		choice Missing
		into   *Missing
	}{{"absent", f.Absent, &into.absent}, {"null", f.Null, &into.null}} {
		switch c.choice {
		case "":
		case Omit, AsNull, Refuse:
			*c.into = c.choice
		default:
			b.Report(path+"."+c.key, problem.Suggest(string(c.choice), string(Omit), string(AsNull), string(Refuse)), "unknown choice %q", c.choice)
		}
	}
}

func (b *mappingCompiler) routes() {
	if len(b.m.Routes) == 0 {
		b.Report("routes", "write [{lane: immediate}] or [{lane: batch}]", "missing")
	}
	always := slices.IndexFunc(b.m.Routes, func(r Route) bool { return r.When == "" })
	for i, r := range b.m.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		var compiled route
		b.weight(path+".weight", &r)
		last := i == len(b.m.Routes)-1
		switch {
		case last && r.When != "" && always < 0:
			b.Report(path+".when", "add a last route without when", "the last route must have no condition")
		case !last && r.When == "":
			b.Report(path, "", "has no condition, so the routes after it can never match")
		}
		if r.When != "" {
			var f formula
			compiled.when, f = b.condition(path+".when", r.When)
			if f.holds != nil {
				b.left = b.left.and(f.not())
			}
		}
		switch r.Lane {
		case "immediate":
			compiled.lane = schemas.Immediate
		case "batch", autoLane:
			compiled.lane = schemas.Batch
		case "skip":
			compiled.lane = schemas.Skip
		case "":
			b.Report(path+".lane", "immediate, batch, auto or skip", "missing")
		default:
			b.Report(path+".lane", problem.Suggest(r.Lane, "immediate", "batch", "auto", "skip"), "unknown lane %q", r.Lane)
		}
		b.freshness(path, &r)
		compiled.objective = r.objective(b.m.Name, i, compiled.lane)
		b.c.routes = append(b.c.routes, compiled)
	}
	if n := len(b.m.Routes); n > 0 && !slices.ContainsFunc(b.m.Routes, func(r Route) bool { return r.Lane != "skip" }) {
		b.Report(fmt.Sprintf("routes[%d].lane", n-1), "write immediate or batch, or remove the mapping", "every route is skip, so nothing would ever be written")
	}
}

// freshness refuses objectives that cannot be kept, and what only an auto route has.
func (b *mappingCompiler) freshness(path string, r *Route) {
	within, spare, auto := r.Auto()
	switch {
	case r.Lane == "skip" && within != 0:
		b.Report(path+".within", "remove it", "is how fresh the route's records are to be, and skip writes none")
	case r.Objective != nil && within == 0:
		b.Report(path+".objective", "add within: 5s, how old a record may be when it is confirmed", "is the share of records that are in time, and nothing says when they are")
	case r.Objective != nil && !(0 < *r.Objective && *r.Objective < 1): // nor is NaN between them
		b.Report(path+".objective", "write 0.999 for 99.9 %", "must be above 0 and below 1, is %v", *r.Objective)
	}
	switch {
	case !auto && r.Spare != nil:
		b.Report(path+".spare", "remove it, or make the route's lane auto", "is about calls in the place of rows, and only an auto route makes them")
	case within < 0:
		b.Report(path+".within", "write a duration, such as 2h", "%v: not below 0", within)
	case auto && !spare && within == 0:
		b.Report(path+".spare", "add within: 2h, or write lane: batch", "without within, no row is ever late, and no call would be made")
	}
}

// What a weight may be: beyond, a route's share could not be told from none.
const leastWeight, mostWeight = 1e-6, 1e6

func (b *mappingCompiler) weight(path string, r *Route) {
	switch {
	case r.Weight == nil:
	case r.Lane != "immediate" && r.Lane != autoLane:
		b.Report(path, "remove it, or make the route's lane immediate or auto", "is a share of calls, and the route makes none")
	case !(leastWeight <= *r.Weight && *r.Weight <= mostWeight): // nor is NaN between them
		b.Report(path, "10 gives the route ten times the calls of one without a weight", "must be above 0, from 0.000001 to 1000000, is %v", *r.Weight)
	}
}

// condition compiles one. Its formula is zero where the condition is refused.
func (b *mappingCompiler) condition(path, text string) (condition, formula) {
	canonical := len(b.m.Fields) == 0
	when, reads, f, err := compileCondition(text, canonical, &b.tests)
	if err == nil && (canonical || b.m.Envelope == debezium) {
		err = findUnknownOp(text)
	}
	if err != nil {
		reportExpression(b.Reporter, path, err, canonical)
		return nil, formula{}
	}
	if b.refuseUseless(path, f) {
		f = formula{}
	}
	b.warnOfNames(path, reads)
	b.c.conditions = append(b.c.conditions, readings{path, reads})
	for _, p := range reads {
		if !slices.ContainsFunc(b.c.reads, func(q readPath) bool { return q.variable == p.variable }) {
			b.c.reads = append(b.c.reads, p)
		}
	}
	return when, f
}

// lanes tells which lanes writes of this mapping can end up in: those of its
// routes, and those that possibleLane sends them to in spite of the route.
func (b *mappingCompiler) lanes() {
	for _, r := range b.c.routes {
		b.c.immediate = b.c.immediate || r.lane == schemas.Immediate
		b.c.batch = b.c.batch || r.lane == schemas.Batch
	}
	imports := &b.m.Imports
	if b.c.immediate && !b.c.Table.Custom && (imports.Patch != nil || imports.Merge != nil || imports.Create != nil || imports.Delete != nil) {
		b.c.batch = true
	}
	if b.c.batch && slices.ContainsFunc(imports.Columns, func(c Column) bool {
		return c.Absent == toImmediate || c.Null == toImmediate
	}) {
		b.c.immediate = true
	}
}

// constants compiles the literals of the columns, whatever lane the mapping uses: a
// call says the same as a row.
func (b *mappingCompiler) constants() {
	for i, col := range b.m.Imports.Columns {
		place, err := values.ParsePlace(b.c.Table, col.Name)
		if err != nil || place.Section == schemas.DataCollection || col.Name == b.m.Key {
			continue // no column, as columns says; or the key, which is never missing
		}
		target := b.c.target(place)
		var from *field
		var convert *values.Converter
		if j := slices.IndexFunc(b.m.Fields, func(f Field) bool { return f.To == col.Name }); j >= 0 {
			from = &b.c.fields[j]
			convert = from.convert
		}
		// By immediate, an upsert's file keeps a segmentation that it does not name.
		if col.Null == toEmpty && values.NeverNull(place) || col.Null == toImmediate && place.Section == schemas.Subscriptions {
			b.Report(fmt.Sprintf("imports.columns[%d].null", i), "write a value for null, such as none or false, or null: omit at the field",
				"%q is never null, so that neither a row nor a call can say it", col.Name)
		}
		constant := columnConstant{Place: place, createOnly: target.Computed()}
		for _, choice := range []struct {
			key, text string
			into      *schemas.Value
		}{{"absent", col.Absent, &constant.absent}, {"null", col.Null, &constant.null}} {
			switch choice.text {
			case "", toEmpty, toImmediate:
				continue
			}
			v, rule := target.Literal(choice.text, convert)
			if rule != "" {
				b.Report(fmt.Sprintf("imports.columns[%d].%s", i, choice.key), "write a value of the column, empty or immediate", "%q %s", choice.text, rule)
			}
			*choice.into = v
		}
		if constant.absent.Kind() != schemas.Absent || constant.null.Kind() != schemas.Absent {
			b.c.constants = append(b.c.constants, constant)
		}
		if from != nil && constant.null.Kind() != schemas.Absent {
			from.WriteForNull(constant.null)
			from.checked = false
		}
	}
}

func (b *mappingCompiler) columns() {
	columns := b.m.Imports.Columns
	for i, col := range columns {
		path := fmt.Sprintf("imports.columns[%d]", i)
		place, err := values.ParsePlace(b.c.Table, col.Name)
		switch {
		case err != nil:
			b.Report(path, "", "%v", err)
		case place.Section == schemas.DataCollection:
			b.Report(path, "", "%q: a file has no column for dataCollection", col.Name)
		case slices.IndexFunc(columns, func(c Column) bool { return c.Name == col.Name }) < i:
			b.Report(path, "", "%q is listed twice", col.Name)
		}
		target := b.c.target(place)
		b.c.Columns = append(b.c.Columns, CSVColumn{
			Header: col.Name, Place: place,
			Absent: cmp.Or(col.Absent, toEmpty), Null: cmp.Or(col.Null, toEmpty),
			CreateOnly: target.Computed(),
		})
	}
	b.c.findCheckedColumns()
}
