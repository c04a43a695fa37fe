package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

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
)

// A condition is total: whatever a record holds, it is true or false. The
// expression is cut at its outer and, or and not into tests, each compiled
// alone; a test that cannot be made (a sum with something missing, a length of
// a number) is false and leaves the others standing. Inside a test, missing
// members are nil and comparisons follow compare.go.
type condition interface {
	holds(e *evaluation) bool
}

type (
	and    struct{ a, b condition }
	either struct{ a, b condition }
	negate struct{ a condition }
	test   struct{ program *vm.Program }
)

func (c and) holds(e *evaluation) bool    { return c.a.holds(e) && c.b.holds(e) }
func (c either) holds(e *evaluation) bool { return c.a.holds(e) || c.b.holds(e) }
func (c negate) holds(e *evaluation) bool { return !c.a.holds(e) }

func (c test) holds(e *evaluation) bool {
	out, err := e.vm.Run(c.program, e.env)
	return err == nil && out == true
}

// evaluation is the working memory for the conditions of one mapping, pooled.
type evaluation struct {
	vm  vm.VM
	env map[string]any // one entry per path that the conditions read
}

// canonicalRoots are the names that conditions on canonical events know
// besides. Only objects get a type: the rest may be missing.
var canonicalRoots = map[string]any{
	"op": "", "key": map[string]any{}, "profileId": any(nil), "businessKey": any(nil),
	"attributes": map[string]any{}, "subscriptions": map[string]any{}, "segments": map[string]any{},
	"properties": map[string]any{},
}

// impure are the functions whose result depends on more than their arguments:
// the clock, the order in which a map is walked, the machine's time zones. Both
// lanes must always come to the same answer.
var impure = []string{"now", "keys", "values", "toPairs", "timezone"}

// conditionError is a mistake in a condition, with its place in the text.
type conditionError struct {
	line, column int // from 1; 0 where the whole condition is meant
	message      string
	hint         string
}

// Error reads `column 3: unknown name x`.
func (e *conditionError) Error() string {
	switch e.line {
	case 0:
		return e.message
	case 1:
		return fmt.Sprintf("column %d: %s", e.column, e.message)
	}
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.column, e.message)
}

// compileCondition compiles the text of a `when` and returns the paths that it
// reads. With canonical, only the known roots may be named; without, any other
// name is a member of the decoded value.
func compileCondition(text string, canonical bool) (c condition, reads []readPath, err error) {
	program, err := compileWritten(text, append(environment(canonical), expr.AsBool()))
	if err != nil {
		return nil, nil, explainCondition(err, canonical)
	}
	b := &conditionBuilder{source: program.Source()}
	c, err = b.build(program.Node())
	if err != nil {
		return nil, nil, explainCondition(err, canonical)
	}
	return c, b.reads, nil
}

// compileWritten compiles a text as it is written, so that mistakes are reported in its
// terms. What runs is compiled from the tree that this leaves.
func compileWritten(text string, options []expr.Option) (*vm.Program, error) {
	refused := &refusal{}
	program, err := expr.Compile(text, append(options, expr.Optimize(false), expr.Patch(refused))...)
	if refused.found != nil {
		return nil, refused.found.Bind(file.NewSource(text))
	}
	return program, err
}

// environment tells the compiler the names that may be used, and their types as
// far as they are known.
func environment(canonical bool) []expr.Option {
	roots := types.Map{}
	add := func(examples map[string]any) {
		for name, example := range examples {
			roots[name] = types.Any
			if example != nil {
				roots[name] = types.TypeOf(example)
			}
		}
	}
	add(recordRoots)
	if !canonical {
		return []expr.Option{expr.Env(roots), expr.AllowUndefinedVariables()}
	}
	add(canonicalRoots)
	return []expr.Option{expr.Env(roots)}
}

// explainCondition turns the library's errors, which draw the text and an
// arrow over several lines, into one line.
func explainCondition(err error, canonical bool) error {
	located, ok := errors.AsType[*file.Error](err)
	if !ok {
		// A panic of the compiler, such as for a pattern that is none, brings its
		// stack along.
		message, _, _ := strings.Cut(err.Error(), "\n")
		return &conditionError{message: message}
	}
	e := &conditionError{line: located.Line, column: located.Column + 1, message: located.Message}
	if name, unknown := strings.CutPrefix(located.Message, "unknown name "); unknown && canonical {
		e.hint = suggest(name, rootNames...)
	}
	if name, unknown := strings.CutPrefix(located.Message, unknownFunction+" "); unknown {
		e.hint = similar(name, builtin.Names...)
	}
	return e
}

// rootNames orders the roots for people.
var rootNames = []string{
	"op", "key", "profileId", "businessKey", "attributes", "subscriptions", "segments", "properties",
	rootHeaders, rootTopic, rootPartition, rootOffset, rootTimestamp, rootKafkaKey,
}

const unknownFunction = "unknown function"

// refusal finds the first thing that a condition may not use.
type refusal struct{ found *file.Error }

// Visit implements ast.Visitor.
func (r *refusal) Visit(node *ast.Node) {
	message := ""
	switch n := (*node).(type) {
	case *ast.BuiltinNode:
		if slices.Contains(impure, n.Name) {
			message = n.Name + " is not available: the result may depend on nothing but the record"
		}
	case *ast.CallNode:
		message = unknownFunction
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			message += " " + callee.Value
		}
	case *ast.VariableDeclaratorNode:
		message = "let is not available"
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			message = "$env is not available"
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
}

func (b *conditionBuilder) build(node ast.Node) (condition, error) {
	switch n := node.(type) {
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&":
			x, y, err := b.pair(n)
			return and{x, y}, err
		case "or", "||":
			x, y, err := b.pair(n)
			return either{x, y}, err
		}
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			x, err := b.build(n.Node)
			return negate{x}, err
		}
	}
	return b.test(node)
}

func (b *conditionBuilder) pair(n *ast.BinaryNode) (x, y condition, err error) {
	if x, err = b.build(n.Left); err != nil {
		return nil, nil, err
	}
	y, err = b.build(n.Right)
	return x, y, err
}

func (b *conditionBuilder) test(part ast.Node) (condition, error) {
	program, err := compilePart(&parser.Tree{Node: part, Source: b.source}, &b.reads, rewriter{})
	if err != nil {
		return nil, err
	}
	return test{program}, nil
}

// compilePart is expr.Compile for a part of a tree: the library's printing of one
// is not always the same expression. It notes the paths that the part reads.
func compilePart(part *parser.Tree, reads *[]readPath, rewrite rewriter) (*vm.Program, error) {
	config := conf.New(map[string]any{})
	config.Strict = false
	config.Visitors = []ast.Visitor{rewrite, &pathCollector{into: reads}}
	expr.Function(functionText, textOf)(config)
	for name, fn := range comparisons {
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
