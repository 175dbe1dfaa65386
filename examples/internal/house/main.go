// Command house prints figures of the repository: the lines of each kind by part, and the prose of each package.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("root", ".", "the root of the repository")
	flag.Parse()
	if err := run(os.Stdout, *root); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string) error {
	rooms, err := roomsBelow(root)
	if err != nil {
		return err
	}
	printRooms(out, rooms)
	packages, err := proseBelow(root)
	if err != nil {
		return err
	}
	printProse(out, packages)
	return nil
}
