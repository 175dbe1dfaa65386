package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// parts are the parts of a kind's code, in the order of the table.
var parts = [...]string{"row", "admission", "resolve", "decide", "act", "types", "defaults", "conversion", "tests"}

// room contains the number of lines of each part of a kind's code.
type room struct {
	name  string
	lines map[string]int
}

// roomsBelow counts the lines of each kind's code: in the kind's folder, and in the module of API types.
func roomsBelow(root string) (rooms []room, err error) {
	examples := filepath.Join(root, "examples")
	folders, err := filepath.Glob(filepath.Join(examples, "kinds", "*", "row.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range folders {
		r := room{name: filepath.Base(filepath.Dir(file)), lines: map[string]int{}}
		patterns := []string{filepath.Join(filepath.Dir(file), "*.go"), filepath.Join(filepath.Dir(file), "*", "*.go")}
		for _, group := range []string{"apps", "policy"} {
			apis := filepath.Join(examples, "apis", group)
			patterns = append(patterns,
				filepath.Join(apis, "*", r.name+"*.go"), filepath.Join(apis, r.name, "*.go"), filepath.Join(apis, r.name+"*.go"))
		}
		for _, pattern := range patterns {
			if err := r.add(pattern); err != nil {
				return nil, err
			}
		}
		rooms = append(rooms, r)
	}
	table, err := os.ReadFile(filepath.Join(examples, "apis", "apps", "conversion", "kinds.go"))
	if err != nil {
		return nil, err
	}
	for _, r := range rooms {
		r.lines["conversion"] = movesOf(r.name, string(table))
	}
	return rooms, nil
}

// movesOf counts the lines about a kind in the table of conversions.
func movesOf(kind, table string) int {
	for _, entry := range strings.Split(table, "\n\ttable[")[1:] {
		head, _, _ := strings.Cut(entry, ",")
		if _, name, _ := strings.Cut(head, "."); strings.EqualFold(name, kind) {
			entry, _, _ = strings.Cut(entry, "\n}\n")
			return strings.Count(entry, "\n") + 1
		}
	}
	return 0
}

// add counts the lines of the files that match the pattern.
func (r *room) add(pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, file := range files {
		if filepath.Base(filepath.Dir(file)) == "testdata" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		r.lines[partOf(filepath.ToSlash(file))] += bytes.Count(data, []byte("\n"))
	}
	return nil
}

// partOf returns the part of a kind's code to which a file belongs, according to the file's name.
func partOf(file string) string {
	folder, name := filepath.Base(filepath.Dir(file)), filepath.Base(file)
	inRoom := strings.Contains(file, "/kinds/")
	switch {
	case strings.HasSuffix(name, "_test.go"):
		return "tests"
	case !inRoom && (strings.HasPrefix(folder, "v1") || folder == "apps" || folder == "policy"):
		return "types"
	case !inRoom:
		return "defaults"
	case name == "row.go":
		return "row"
	case name == "admission.go", strings.HasPrefix(name, "validate"), strings.HasPrefix(name, "pod"), name == "surge.go":
		return "admission"
	case strings.HasPrefix(name, "resolve"):
		return "resolve"
	case strings.HasPrefix(name, "decide"), folder == "schedule":
		return "decide"
	default:
		return "act"
	}
}

func printRooms(out io.Writer, rooms []room) {
	fmt.Fprintf(out, "| kind | %s | all |\n|---%s|---|\n", strings.Join(parts[:], " | "), strings.Repeat("|---", len(parts)))
	for _, r := range rooms {
		fmt.Fprintf(out, "| %s ", r.name)
		all := 0
		for _, part := range parts {
			fmt.Fprintf(out, "| %d ", r.lines[part])
			all += r.lines[part]
		}
		fmt.Fprintf(out, "| %d |\n", all)
	}
}
