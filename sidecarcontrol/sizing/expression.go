package sizing

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	maxLength = 1000
	maxDepth  = 50
	// maxExponent limits the size of literals. No quantity is larger than 1e19 nor smaller than 1e-9.
	maxExponent = 30
)

// node is a node of a parsed expression. A literal has a value; the variable has neither value nor arguments.
type node struct {
	op    byte // + - * / < (min) > (max) v (variable) l (literal)
	left  *node
	right *node
	value *big.Rat
	// quantity distinguishes a quantity from a plain number. The variable is a quantity, so a plain number never
	// depends on the Pod.
	quantity bool
}

func (n *node) constant() bool { return n.op == 'l' }

// join combines two nodes by an operator, and computes the result at once if both are constant.
func join(op byte, left, right *node) (*node, error) {
	n := &node{op: op, left: left, right: right, quantity: left.quantity || right.quantity}
	switch {
	case op == '*' && left.quantity && right.quantity:
		return nil, errors.New("multiplies two quantities")
	case op == '/' && right.quantity:
		return nil, errors.New("divides by a quantity")
	case op == '/' && right.value.Sign() == 0: // A divisor is a plain number, and so a literal.
		return nil, errors.New("divides by zero")
	}
	if left.constant() && right.constant() {
		return &node{op: 'l', value: n.eval(nil), quantity: n.quantity}, nil
	}
	return n, nil
}

// eval returns the value of the expression. Quantities are in cores or bytes; products and quotients of quantities,
// and numbers added to or compared with quantities, are truncated to thousandths.
func (n *node) eval(variable *big.Rat) *big.Rat {
	switch n.op {
	case 'l':
		return n.value
	case 'v':
		return variable
	}
	a, b := n.left.eval(variable), n.right.eval(variable)
	out := new(big.Rat)
	switch n.op {
	case '*':
		out.Mul(a, b)
	case '/':
		out.Quo(a, b)
	default:
		a, b = n.beside(n.left, a), n.beside(n.right, b)
		return combine(n.op, a, b)
	}
	if n.quantity {
		return milli(out)
	}
	return out
}

// beside truncates a plain number that is added to or compared with a quantity.
func (n *node) beside(operand *node, value *big.Rat) *big.Rat {
	if n.quantity && !operand.quantity {
		return milli(value)
	}
	return value
}

func combine(op byte, a, b *big.Rat) *big.Rat {
	switch op {
	case '+':
		return new(big.Rat).Add(a, b)
	case '-':
		return new(big.Rat).Sub(a, b)
	case '<':
		if b.Cmp(a) < 0 {
			return b
		}
	case '>':
		if b.Cmp(a) > 0 {
			return b
		}
	}
	return a
}

func thousand() *big.Rat { return big.NewRat(1000, 1) }

// whole truncates a number to an integer.
func whole(value *big.Rat) *big.Int { return new(big.Int).Quo(value.Num(), value.Denom()) }

func milli(value *big.Rat) *big.Rat {
	cut := whole(new(big.Rat).Mul(value, thousand()))
	return new(big.Rat).SetFrac(cut, big.NewInt(1000))
}

func powerOf(base int64, exponent int) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(exponent)), nil))
}

// parser is a recursive-descent parser of expressions.
type parser struct {
	text     string
	at       int
	depth    int
	variable string
}

func parse(text, variable string) (*node, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("has %d bytes, and may have %d", len(text), maxLength)
	}
	p := &parser{text: text, variable: variable}
	n, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.next() != 0 || p.at < len(p.text) {
		return nil, p.unexpected()
	}
	return n, nil
}

// next returns the next character other than a blank, and 0 at the end.
func (p *parser) next() byte {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *parser) unexpected() error {
	if p.next() == 0 && p.at == len(p.text) {
		return errors.New("ends too early")
	}
	return fmt.Errorf("position %d: unexpected %q", p.at+1, reason.Shorten(p.text[p.at:], 20))
}

func (p *parser) take(c byte) error {
	if p.next() != c {
		return p.unexpected()
	}
	p.at++
	return nil
}

// chain parses operands that are joined by the given operators of equal precedence.
func (p *parser) chain(operators string, operand func() (*node, error)) (*node, error) {
	left, err := operand()
	for err == nil {
		op := p.next()
		if op == 0 || strings.IndexByte(operators, op) < 0 {
			return left, nil
		}
		at := p.at
		p.at++
		var right *node
		if right, err = operand(); err == nil {
			if left, err = join(op, left, right); err != nil {
				err = fmt.Errorf("position %d: %w", at+1, err)
			}
		}
	}
	return nil, err
}

func (p *parser) sum() (*node, error)     { return p.chain("+-", p.product) }
func (p *parser) product() (*node, error) { return p.chain("*/", p.operand) }

// operand parses an operand of the operators. All nested expressions go through operand, so operand limits the depth
// of nesting.
func (p *parser) operand() (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("position %d: nests deeper than %d", p.at+1, maxDepth)
	}
	defer func() { p.depth-- }()
	switch c := p.next(); {
	case c == '-':
		p.at++
		n, err := p.operand()
		if err != nil {
			return nil, err
		}
		return join('-', &node{op: 'l', value: new(big.Rat), quantity: n.quantity}, n)
	case c == '(':
		p.at++
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		return n, p.take(')')
	case isDigit(c) || c == '.':
		return p.literal()
	case isLetter(c):
		return p.name()
	}
	return nil, p.unexpected()
}

// name parses the variable, or a call of max or min.
func (p *parser) name() (*node, error) {
	start := p.at
	word := strings.ToLower(p.word())
	var op byte
	switch word {
	case p.variable:
		return &node{op: 'v', quantity: true}, nil
	case "min":
		op = '<'
	case "max":
		op = '>'
	default:
		return nil, fmt.Errorf("position %d: unknown name %q; the names here are %s, max and min", start+1, p.text[start:p.at], p.variable)
	}
	if err := p.take('('); err != nil {
		return nil, err
	}
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	if err := p.take(','); err != nil {
		return nil, err
	}
	right, err := p.sum()
	if err != nil {
		return nil, err
	}
	if err := p.take(')'); err != nil {
		return nil, err
	}
	return join(op, left, right)
}

// word reads letters, digits, dots and underscores as a whole, so that the error about an unknown suffix names the
// whole literal.
func (p *parser) word() string {
	start := p.at
	for p.at < len(p.text) && (isLetter(p.text[p.at]) || isDigit(p.text[p.at]) || p.text[p.at] == '.' || p.text[p.at] == '_') {
		p.at++
	}
	return p.text[start:p.at]
}

// literal parses a number, a percentage or a quantity.
func (p *parser) literal() (*node, error) {
	start := p.at
	word := p.word()
	if last := word[len(word)-1]; (last == 'e' || last == 'E') && p.at < len(p.text) && (p.text[p.at] == '-' || p.text[p.at] == '+') {
		p.at++ // This sign belongs to the exponent.
		p.word()
		word = p.text[start:p.at]
	}
	mantissa := strings.TrimLeft(word, "0123456789.")
	suffix := mantissa
	mantissa = word[:len(word)-len(mantissa)]
	value, valid := new(big.Rat).SetString(mantissa)
	if !valid {
		return nil, fmt.Errorf("position %d: %q is no number", start+1, reason.Shorten(word, 20))
	}
	n := &node{op: 'l', value: value}
	if suffix == "" {
		if p.at < len(p.text) && p.text[p.at] == '%' {
			p.at++
			value.Quo(value, big.NewRat(100, 1))
		}
		return n, nil
	}
	factor, quantity := scale(suffix)
	if factor == nil {
		return nil, fmt.Errorf("position %d: %q is neither a number, a percentage nor a quantity", start+1, reason.Shorten(word, 20))
	}
	value.Mul(value, factor)
	n.quantity = quantity
	return n, nil
}

// scale returns the factor of a suffix, nil if the suffix is unknown.
func scale(suffix string) (factor *big.Rat, quantity bool) {
	if exponent, found := strings.CutPrefix(strings.ToLower(suffix), "e"); found {
		n, err := strconv.Atoi(exponent)
		switch {
		case err != nil || n > maxExponent || n < -maxExponent:
			return nil, false
		case n < 0:
			return new(big.Rat).Inv(powerOf(10, -n)), false
		}
		return powerOf(10, n), false
	}
	if suffix == "m" {
		return big.NewRat(1, 1000), true
	}
	const decimals, binaries = "kMGTP", "KMGTP"
	if i := strings.Index(decimals, suffix); i >= 0 && len(suffix) == 1 {
		return powerOf(1000, i+1), true
	}
	if i := strings.IndexByte(binaries, suffix[0]); i >= 0 && suffix[1:] == "i" {
		return powerOf(1024, i+1), true
	}
	return nil, false
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
