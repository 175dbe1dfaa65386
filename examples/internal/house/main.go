// Command house prints figures about the repository: for each API kind, the number of lines of code by the part of
// the code (such as admission or decide), and for each package, the number of pronouns in comments.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("root", ".", "the root of the repository")
	most := flag.Float64("most", 100, "fail if a package has more pronouns and relatives per 100 words")
	flag.Parse()
	if err := run(os.Stdout, *root, *most); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string, most float64) error {
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
	return above(packages, most)
}
