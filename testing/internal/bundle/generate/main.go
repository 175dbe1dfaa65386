// Command generate packs the sources of binaries into a text file for embedding in a package. Run
// "go generate" in the package's directory after every change of the files.
package main

import (
	"fmt"
	"os"

	"github.com/workloadkit/workloadkit/testing/internal/bundle"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: generate DIRECTORY OUTPUT-FILE FILE...")
		os.Exit(2)
	}
	packed, err := bundle.Pack(os.Args[1], os.Args[3:])
	if err == nil {
		err = os.WriteFile(os.Args[2], packed, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
