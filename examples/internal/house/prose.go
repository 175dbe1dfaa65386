package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pointing contains the pronouns and relatives whose referents a reader has to find in earlier text.
const pointing = " it its they them those that which what whom whose one other others this these "

// widest is the largest allowed width of a line, in columns.
const widest = 120

// prose contains the figures about the comments of a package, without tests.
type prose struct {
	words, pointing int // number of words, and of pronouns and relatives, in comments
	lines, wide     int
}

// proseBelow reads the packages below a directory, and returns the figures of each package by path.
func proseBelow(root string) (map[string]*prose, error) {
	packages := map[string]*prose{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (name == "testdata" || name == "binaries" || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case entry.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), strings.HasPrefix(name, "zz_generated"):
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		p := packages[filepath.ToSlash(folder)]
		if p == nil {
			p = &prose{}
			packages[filepath.ToSlash(folder)] = p
		}
		return p.read(path)
	})
	return packages, err
}

// read adds the figures of a file to the figures of its package.
func (p *prose) read(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		p.lines++
		columns := len([]rune(strings.ReplaceAll(strings.TrimRight(string(line), "\n"), "\t", "    ")))
		if columns > widest {
			p.wide++
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		p.count(group.Text())
	}
	return nil
}

// count counts the words of a comment.
func (p *prose) count(text string) {
	for word := range strings.FieldsSeq(text) {
		word = strings.ToLower(strings.Trim(word, ".,;:!?()[]\"'`"))
		if word == "" {
			continue
		}
		p.words++
		if strings.Contains(pointing, " "+word+" ") {
			p.pointing++
		}
	}
}

// share returns the number of pointing words per 100 words.
func (p *prose) share() float64 { return 100 * float64(p.pointing) / float64(max(p.words, 1)) }

func printProse(out io.Writer, packages map[string]*prose) {
	fmt.Fprint(out, "\n| package | words of comments | pronouns and relatives per 100 | lines | of them wider than 120 |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		p := packages[name]
		fmt.Fprintf(out, "| %s | %d | %.1f | %d | %d |\n", name, p.words, p.share(), p.lines, p.wide)
	}
}

// above returns an error that names the packages with more than most pointing words per 100 words.
func above(packages map[string]*prose, most float64) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if p := packages[name]; p.share() > most {
			errs = append(errs, fmt.Errorf("package %s has %.1f pronouns and relatives per 100 words of comments, at most %.1f are wanted", name, p.share(), most))
		}
	}
	return errors.Join(errs...)
}
