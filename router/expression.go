package router

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	exprcheck "github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/feedsink/feedsink/router/operators"
	"github.com/feedsink/feedsink/router/problem"
	"github.com/feedsink/feedsink/router/values"
	"github.com/feedsink/feedsink/schemas"
)

// A condition is total: whatever a record holds, it is true or false. The
// expression is cut at its outer and, or and not into tests, each compiled
// alone; a test that cannot be made (a sum with something missing, a length of
// a number) is false and leaves the others standing. Inside a test, missing
// members are nil and comparisons follow operators.go.
type condition func(e *evaluation) bool

// evaluation is the working memory for the conditions of one mapping, pooled.
type evaluation struct {
	vm  vm.VM
	env map[string]any // one entry per path that the conditions read
	// broken is why a value that they read is nil: it cannot be read. Nil: all can.
	broken *Reject
}

// canonicalRoots are the names that conditions on canonical events know
// besides. Only objects get a type: the rest may be missing.
var canonicalRoots = types.Map{
	"op": types.String, "key": anObject, "profileId": types.Any, "businessKey": types.Any,
	"attributes": anObject, "subscriptions": anObject, "segments": anObject, "properties": anObject,
}

// impure are the functions whose result depends on more than their arguments:
// the clock, the order in which a map is walked, the machine's time zones. Both
// lanes must always come to the same answer.
var impure = []string{"now", "keys", "values", "toPairs", "timezone"}

// compileCondition compiles the text of a `when` and returns the paths that it
// reads, and how it joins its tests, which are added to known. With canonical, only the known
// roots may be named; without, any other name is a member of the decoded value.
func compileCondition(text string, canonical bool, known *tests) (c condition, reads []readPath, f formula, err error) {
	program, err := compileAsWritten(text, canonical, expr.AsBool())
	if err != nil {
		return nil, nil, formula{}, err
	}
	b := &conditionBuilder{source: program.Source(), tests: known}
	c, f, err = b.build(program.Node())
	return c, b.reads, f, err
}

// compileAsWritten compiles a text as it is written, so that mistakes are reported in its
// terms. What runs is compiled from the tree that this leaves.
func compileAsWritten(text string, canonical bool, options ...expr.Option) (*vm.Program, error) {
	refused := &refusal{canonical: canonical}
	options = append(options, environment(canonical)...)
	program, err := expr.Compile(text, append(options, expr.Optimize(false), expr.Patch(refused))...)
	if refused.found != nil {
		return nil, refused.found.Bind(file.NewSource(text))
	}
	return program, err
}

// environment tells the compiler the names that may be used, and their types as
// far as they are known.
func environment(canonical bool) []expr.Option {
	roots := maps.Clone(recordRoots)
	roots[rootValue] = anObject
	if !canonical {
		return []expr.Option{expr.Env(roots), expr.AllowUndefinedVariables()}
	}
	maps.Copy(roots, canonicalRoots)
	return []expr.Option{expr.Env(roots)}
}

// reportExpression turns the library's errors, which draw the text and an arrow over
// several lines, into one line.
func reportExpression(at problem.Reporter, path string, err error, canonical bool) {
	located, ok := errors.AsType[*file.Error](err)
	if !ok {
		// A panic of the compiler, such as for a pattern that is none, brings its
		// stack along.
		message, _, _ := strings.Cut(err.Error(), "\n")
		at.Report(path, "", "%s", message)
		return
	}
	place, hint := "", ""
	switch {
	case located.Line == 1:
		place = fmt.Sprintf("column %d: ", located.Column+1)
	case located.Line > 1:
		place = fmt.Sprintf("line %d, column %d: ", located.Line, located.Column+1)
	}
	if name, unknown := strings.CutPrefix(located.Message, unknownName+" "); unknown && canonical {
		hint = problem.Suggest(name, rootNames...)
	}
	if text, unknown := strings.CutSuffix(located.Message, " is "+unknownOp); unknown {
		hint = problem.Suggest(strings.Trim(text, `"`), opWords...)
	}
	if name, unknown := strings.CutPrefix(located.Message, unknownFunction+" "); unknown {
		hint = problem.Similar(name, builtin.Names...)
	}
	if strings.HasSuffix(located.Message, unknownZone) {
		hint = values.HintZone
	}
	switch located.Message {
	case `unexpected token Operator("=")`:
		hint = "write == to compare"
	case "unexpected token EOF":
		hint = "the expression ends too early"
	}
	at.Report(path, hint, "%s%s", place, located.Message)
}

// rootNames orders the roots for people.
var rootNames = []string{
	"op", "key", "profileId", "businessKey", "attributes", "subscriptions", "segments", "properties",
	rootHeaders, rootTopic, rootPartition, rootOffset, rootTimestamp, rootKafkaKey, rootValue,
}

// What the library says of a name, and we of a function and of a zone.
const (
	unknownName     = "unknown name"
	unknownFunction = "unknown function"
	unknownZone     = "is not a time zone"
)

// refusal finds the first thing that a condition may not use. A name that is not
// called is never a function's: it becomes the variable of that member of the value.
type refusal struct {
	canonical bool
	found     *file.Error
}

// Visit implements ast.Visitor.
func (r *refusal) Visit(node *ast.Node) {
	message := ""
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if slices.Contains(impure, n.Name) {
			message = n.Name + " is not available: the result may depend on nothing but the record"
		}
		if n.Name == "date" && len(n.Arguments) == 3 && isText(n.Arguments[2]) {
			if _, err := operators.Zone(n.Arguments[2].(*ast.StringNode).Value); err != nil {
				message = err.Error()
			}
		}
	case *ast.CallNode:
		message = unknownFunction
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			message += " " + callee.Value
		}
	case *ast.BinaryNode:
		if ordersNil(n) {
			message = "nothing is above or below nil, so this is never true; == nil and != nil ask whether something is there"
		}
	case *ast.VariableDeclaratorNode:
		message = "let is not available"
	case *ast.IdentifierNode:
		switch {
		case n.Value == "$env":
			message = "$env is not available"
		case !slices.Contains(builtin.Names, n.Value):
		case r.canonical:
			message = unknownName + " " + n.Value
		default:
			ast.Patch(node, &ast.IdentifierNode{Value: pathMark + n.Value})
		}
	}
	if message != "" && r.found == nil {
		r.found = &file.Error{Location: (*node).Location(), Message: message}
	}
}

// conditionBuilder compiles the tests of a condition.
type conditionBuilder struct {
	source file.Source
	reads  []readPath
	tests  *tests
}

func (b *conditionBuilder) build(node ast.Node) (condition, formula, error) {
	switch n := node.(type) {
	case *ast.BinaryNode:
		and := n.Operator == "and" || n.Operator == "&&"
		if !and && n.Operator != "or" && n.Operator != "||" {
			break
		}
		x, f, err := b.build(n.Left)
		if err != nil {
			return nil, formula{}, err
		}
		y, g, err := b.build(n.Right)
		if err != nil {
			return nil, formula{}, err
		}
		if and {
			return func(e *evaluation) bool { return x(e) && y(e) }, f.and(g), nil
		}
		return func(e *evaluation) bool { return x(e) || y(e) }, f.or(g), nil
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			x, f, err := b.build(n.Node)
			return func(e *evaluation) bool { return !x(e) }, f.not(), err
		}
	}
	return b.test(node)
}

// test compiles a part that joins no others.
func (b *conditionBuilder) test(node ast.Node) (condition, formula, error) {
	one := test{tree: ast.Dump(node)}
	literals, compared := comparedWith(node) // before it is rewritten
	var reads []readPath
	program, err := compilePart(&parser.Tree{Node: node, Source: b.source}, &reads, operators.OfConditions)
	if err != nil {
		return nil, formula{}, err
	}
	b.reads = append(b.reads, reads...)
	one.constant = len(reads) == 0
	if compared {
		one.path, one.literals = reads[0].variable, literals
	}
	one.holds = func(e *evaluation) bool {
		out, err := e.vm.Run(program, e.env)
		return err == nil && out == true
	}
	return one.holds, b.tests.formula(one), nil
}

// compilePart is expr.Compile for a part of a tree: the library's printing of one
// is not always the same expression. It notes the paths that the part reads.
func compilePart(part *parser.Tree, reads *[]readPath, functions map[string]operators.Function) (*vm.Program, error) {
	config := conf.New(map[string]any{})
	config.Strict = false
	config.Visitors = []ast.Visitor{rewriter{functions}, pathCollector(reads)}
	for name, fn := range functions {
		expr.Function(name, fn)(config)
	}
	if _, err := new(exprcheck.Checker).PatchAndCheck(part, config); err != nil {
		return nil, err
	}
	if err := optimizer.Optimize(&part.Node, config); err != nil {
		if located, ok := errors.AsType[*file.Error](err); ok {
			err = located.Bind(part.Source)
		}
		return nil, err
	}
	return compiler.Compile(part, config)
}

// expression computes a value from what a record holds, in the language of the
// conditions and as pure as they are.
type expression struct {
	program     *vm.Program
	reads       []readPath
	evaluations sync.Pool // of *evaluation
}

const (
	ruleComputable = "cannot be computed: its operands do not fit"
	ruleResult     = "the expression must come to text, a number, true, false or a list of them"
)

// compileExpression compiles the text of an `expr`, which may name the members
// of the decoded value and what conditions know of the record.
func compileExpression(text string) (*expression, error) {
	program, err := compileAsWritten(text, false)
	if err != nil {
		return nil, err
	}
	e := &expression{}
	e.evaluations.New = func() any { return &evaluation{env: make(map[string]any, len(e.reads))} }
	e.program, err = compilePart(&parser.Tree{Node: program.Node(), Source: program.Source()}, &e.reads, operatorsOfExpressions)
	return e, err
}

// operatorsOfExpressions are those with a function string of our own.
var operatorsOfExpressions = func() map[string]operators.Function {
	all := maps.Clone(operators.OfExpressions)
	all["string"] = textOf
	return all
}()

// textOf is the function string for values that are written to tables: nothing
// has no text, and a number no exponent.
func textOf(arguments ...any) (any, error) {
	if len(arguments) != 1 {
		return nil, fmt.Errorf("string: %d arguments, want one", len(arguments))
	}
	v, rule := valueOf(arguments[0])
	if rule != "" || !present(v) || v.Kind() == schemas.List || v.Kind() == schemas.Object {
		return nil, fmt.Errorf("string: no text for a %T", arguments[0])
	}
	return v.Text(), nil
}

// value computes the expression. What comes to nil, or cannot be computed since
// something it reads is missing, is Absent; anything else that cannot be
// computed breaks a rule.
func (e *expression) value(in *input) (v schemas.Value, rule string) {
	return e.valueWith(in, nil)
}

// valueWith computes with scalar, where it is not nil, in the place of whatever
// the expression reads of the value.
func (e *expression) valueWith(in *input, scalar *schemas.Value) (v schemas.Value, rule string) {
	work := e.evaluations.Get().(*evaluation)
	defer e.evaluations.Put(work)
	missing := false
	for _, p := range e.reads {
		read := in.read(p.names)
		if scalar != nil && !p.ofRecord() {
			read = *scalar
		}
		if broken := read.Unreadable(); broken != nil {
			return v, broken.Error()
		}
		if !operators.Computable(read) {
			return v, values.RuleDigits
		}
		operand := read.Any()
		if operand == nil && p.ofRecord() {
			operand, _ = in.plain(p)
		}
		missing = missing || operand == nil
		work.env[p.variable] = operand
	}
	out, err := work.vm.Run(e.program, work.env)
	switch {
	case err == nil:
		return valueOf(out)
	case errors.Is(err, operators.ErrDigits):
		return v, values.RuleDigits
	case missing:
		return schemas.Value{}, ""
	}
	return v, ruleComputable
}

// valueOf is the value of what an expression came to; nil is Absent.
func valueOf(result any) (v schemas.Value, rule string) {
	switch result := result.(type) {
	case nil:
		return schemas.Value{}, ""
	case string:
		if !utf8.ValidString(result) {
			return v, ruleUTF8
		}
		return schemas.StringValue(result), ""
	case bool:
		return schemas.BoolValue(result), ""
	case int:
		return values.Int(int64(result)), ""
	case float64:
		return values.Float(result)
	case time.Time:
		return schemas.StringValue(result.Format(time.RFC3339Nano)), ""
	case []any:
		items := make([]schemas.Field, len(result))
		for i := range result {
			if items[i].Value, rule = valueOf(result[i]); rule != "" {
				return v, rule
			}
			if items[i].Value.Kind() == schemas.Absent {
				items[i].Value = schemas.NullValue()
			}
		}
		return schemas.ListValue(items), ""
	}
	return otherValue(reflect.ValueOf(result))
}

// otherValue knows the types that the language's functions return besides.
func otherValue(result reflect.Value) (schemas.Value, string) {
	switch {
	case result.Type() == reflect.TypeFor[time.Duration]():
	case result.CanInt():
		return values.Int(result.Int()), ""
	case result.CanFloat():
		return values.Float(result.Float())
	case result.Kind() == reflect.Slice:
		items := make([]any, result.Len())
		for i := range items {
			items[i] = result.Index(i).Interface()
		}
		return valueOf(items)
	}
	return schemas.Value{}, ruleResult
}
