package chaos_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plantedMistake is the name of the environment variable that contains the number of the mistake to make. The test
// binary reads the number into the variable plantedMistake of the tested package.
const plantedMistake = "PLANTED_MISTAKE"

// mistake is a text in a file, and the wrong text that replaces it.
type mistake struct {
	number   int
	old, new string
}

// plant returns the source of a file with all mistakes; the value of the package's variable plantedMistake selects
// the mistake that has an effect. A function with mistakes begins with a copy of its body for each mistake. The
// second result lists the mistakes that need a file of their own: mistakes outside functions, and mistakes in
// functions with labels, because copies of the body would declare the labels twice.
func plant(source string, mistakes []mistake) (planted string, alone []int, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	offset := func(pos token.Pos) int { return files.Position(pos).Offset }
	copies := map[*ast.FuncDecl]string{}
	for _, m := range mistakes {
		begin := strings.Index(source, m.old)
		around := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Body != nil && offset(f.Body.Lbrace) < begin && begin+len(m.old) <= offset(f.Body.Rbrace) && !hasLabels(f)
		})
		if around < 0 {
			alone = append(alone, m.number)
			continue
		}
		f := file.Decls[around].(*ast.FuncDecl) //nolint:forcetypeassert // as found
		body := source[offset(f.Body.Lbrace)+1:begin] + m.new + source[begin+len(m.old):offset(f.Body.Rbrace)]
		if f.Type.Results == nil {
			body += "\nreturn\n"
		}
		copies[f] += fmt.Sprintf("\nif plantedMistake == %d {%s}\n", m.number, body)
	}
	planted = source
	for _, d := range slices.Backward(file.Decls) {
		if f, ok := d.(*ast.FuncDecl); ok && copies[f] != "" {
			at := offset(f.Body.Lbrace) + 1
			planted = planted[:at] + copies[f] + planted[at:]
		}
	}
	return planted, alone, nil
}

func hasLabels(f *ast.FuncDecl) (has bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		_, is := n.(*ast.LabeledStmt)
		has = has || is
		return true
	})
	return has
}

// field compiles test binaries with mistakes, and stores their paths.
type field struct {
	parent *testing.T // the parent of all tests that use the same binaries

	root string // the root directory of the repository
	all  []mutant
	// binaries contains the path of the test binary with all mistakes of a package, by package.
	binaries map[string]string
	alone    map[string]bool // names of the mistakes that need a binary of their own
}

// binary returns the path of the test binary with a mistake, and the environment variables that make the binary use
// the mistake.
func (f *field) binary(t *testing.T, m mutant) (path string, environment []string) {
	t.Helper()
	if f.binaries[m.tests] == "" {
		f.binaries[m.tests] = f.together(t, m.tests)
	}
	if f.alone[m.name] {
		path, content := m.mutated(t, f.root)
		binary, err := f.compile(t, t.TempDir(), m.tests, map[string]string{path: content})
		if err != nil {
			t.Fatal(err)
		}
		return binary, nil
	}
	number := slices.IndexFunc(f.all, func(other mutant) bool { return other.name == m.name && other.tests == m.tests })
	return f.binaries[m.tests], []string{fmt.Sprintf("%s=%d", plantedMistake, number)}
}

// together compiles the tests of a package with all mistakes of the package, and returns the path of the test binary.
func (f *field) together(t *testing.T, tests string) string {
	t.Helper()
	byFile := map[string][]mistake{}
	for i, m := range f.all {
		if m.tests == tests {
			path, _ := m.mutated(t, f.root)
			byFile[path] = append(byFile[path], mistake{i, m.old, m.new})
		}
	}
	contents := map[string]string{}
	for path, mistakes := range byFile {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		planted, alone, err := plant(string(source), mistakes)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, number := range alone {
			f.alone[f.all[number].name] = true
		}
		if planted == string(source) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.PackageClauseOnly)
		if err != nil {
			t.Fatal(err)
		}
		contents[path] = planted
		contents[filepath.Join(filepath.Dir(path), "planted_mistake.go")] = fmt.Sprintf(
			"package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar plantedMistake, _ = strconv.Atoi(os.Getenv(%q))\n", file.Name, plantedMistake)
	}
	binary, err := f.compile(t, f.parent.TempDir(), tests, contents)
	if err != nil { // a mistake does not compile: each mistake gets its own binary, so that the error names the mistake
		t.Logf("together: %v", err)
		for _, m := range f.all {
			f.alone[m.name] = f.alone[m.name] || m.tests == tests
		}
	}
	return binary
}

// compile compiles the tests of a package. The given contents replace the contents of the files.
func (f *field) compile(t *testing.T, dir, tests string, contents map[string]string) (binary string, err error) {
	t.Helper()
	replace := map[string]string{}
	for path, content := range contents {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	binary = filepath.Join(dir, "mutant.test")
	replaced, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replaced, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, tests)
	cmd.Dir = filepath.Join(f.root, "examples")
	if out, err := cmd.CombinedOutput(); err != nil {
		return binary, fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
}

func TestPlant(t *testing.T) {
	const source = `package p

var limit = 3

func (s *set[K]) add(k K) (bool, error) {
	if s.has(k) {
		return false, nil
	}
	return true, s.put(k)
}

func (s *set[K]) drop(k K) { delete(s.keys, k) }

func loop() {
again:
	for range limit {
		break again
	}
}
`
	got, alone, err := plant(source, []mistake{
		{1, "s.has(k)", "!s.has(k)"},
		{2, "return true, s.put(k)", "return true, nil"},
		{3, "delete(s.keys, k)", ""},
		{4, "limit = 3", "limit = 4"},
		{5, "break again", "continue"},
	})
	want := `package p

var limit = 3

func (s *set[K]) add(k K) (bool, error) {
if plantedMistake == 1 {
	if !s.has(k) {
		return false, nil
	}
	return true, s.put(k)
}

if plantedMistake == 2 {
	if s.has(k) {
		return false, nil
	}
	return true, nil
}

	if s.has(k) {
		return false, nil
	}
	return true, s.put(k)
}

func (s *set[K]) drop(k K) {
if plantedMistake == 3 {  
return
}
 delete(s.keys, k) }

func loop() {
again:
	for range limit {
		break again
	}
}
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if diff := cmp.Diff([]int{4, 5}, alone); diff != "" {
		t.Errorf("alone (-want +got)\n%s", diff)
	}
	if _, _, err := plant("package", nil); err == nil {
		t.Error("a file that does not parse")
	}
}
