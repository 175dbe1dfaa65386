// Command verdict reads the output of "go test -json", and prints the usual output of go test. Because errors are
// hard to find in a long log, verdict also appends a line for each failed test, with the first error, to a file.
//
//	go test -json ./... | verdict -failures bin/failures.txt
//
// Each line has the package, the test and the error, separated by tabs; the test is empty if no test but the package
// itself has failed. The exit code is 1 after any failure, or if no test was run.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	failures := flag.String("failures", "", "the file that lines are appended to")
	all := flag.Bool("v", false, "print what tests say that pass, too")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *failures, *all); err != nil {
		fmt.Fprintln(os.Stderr, "verdict:", err)
		os.Exit(1)
	}
}

func run(from io.Reader, to io.Writer, failures string, all bool) error {
	failed, err := read(from, to, all)
	if failures != "" && len(failed) > 0 {
		err = errors.Join(err, add(failures, failed))
	}
	if len(failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d failures", len(failed)))
	}
	return err
}

func add(path string, failed []failure) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // all users may read it
	if err != nil {
		return err
	}
	for _, f := range failed {
		_, err = fmt.Fprintf(file, "%s\t%s\t%s\n", f.pkg, f.test, f.first)
	}
	return errors.Join(err, file.Close())
}

// event is an event of test2json (see go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// failure is a failed test, or a package that failed although none of its tests failed.
type failure struct{ pkg, test, first string }

// key identifies a test, or if Test is empty, a package.
type key struct{ pkg, test string }

// read returns the failures in the output of go test -json, in order. If all is set, all output is printed at once.
func read(from io.Reader, to io.Writer, all bool) (failed []failure, err error) {
	said := map[key][]string{}
	packages := 0
	lines := bufio.NewReader(from)
	for {
		line, readErr := lines.ReadString('\n')
		if line != "" {
			e := event{}
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(to, line) // a message of the go command itself
				continue
			}
			if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
				packages++
			}
			shown := to
			if all {
				shown = io.Discard
				fmt.Fprint(to, e.Output)
			}
			failed = e.note(said, failed, shown)
		}
		switch {
		case errors.Is(readErr, io.EOF) && packages == 0 && len(failed) == 0:
			return failed, errors.New("no package was tested")
		case errors.Is(readErr, io.EOF):
			return failed, nil
		case readErr != nil:
			return failed, readErr
		}
	}
}

// note processes an event. The output of a test is printed only if the test fails.
func (e *event) note(said map[key][]string, failed []failure, to io.Writer) []failure {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		said[key{e.ImportPath, ""}] = append(said[key{e.ImportPath, ""}], e.Output)
		fmt.Fprint(to, e.Output)
	case "build-fail":
		return append(failed, failure{e.ImportPath, "", firstError(said[key{e.ImportPath, ""}])})
	case "output":
		said[k] = append(said[k], e.Output)
		if e.Test == "" && isResult(e.Output) {
			fmt.Fprint(to, e.Output)
		}
	case "fail":
		for _, line := range said[k] {
			if e.Test != "" || !isResult(line) {
				fmt.Fprint(to, line)
			}
		}
		if !e.hasFailedPart(failed) {
			failed = append(failed, failure{e.Package, e.Test, firstError(said[k])})
		}
		delete(said, k)
	case "pass", "skip":
		delete(said, k)
	}
	return failed
}

// hasFailedPart reports whether a subtest, or a test of the package, has already failed. The failure of the test or
// package is then only a consequence, and gets no line.
func (e *event) hasFailedPart(failed []failure) bool {
	return slices.ContainsFunc(failed, func(f failure) bool {
		switch {
		case e.Test == "" && f.test == "": // the build of the package or of its tests has failed
			return f.pkg == e.Package || strings.HasPrefix(f.pkg, e.Package+" ")
		case e.Test == "":
			return f.pkg == e.Package
		}
		return f.pkg == e.Package && strings.HasPrefix(f.test, e.Test+"/")
	})
}

// isResult reports whether a line is the last line that go test prints for a package without -v.
func isResult(line string) bool {
	return strings.HasPrefix(line, "ok  ") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   ")
}

// firstError returns the first line of an error: of a test, a panic, a data race or the compiler.
func firstError(lines []string) string {
	telling := regexp.MustCompile(`\.go:\d+(:\d+)?: |^panic: |DATA RACE|^fatal error: `)
	first := ""
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if telling.MatchString(line) {
			return line
		}
		if first == "" && line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "FAIL") {
			first = line
		}
	}
	return first
}
