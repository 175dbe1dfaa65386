// Command generate packs the module of the control plane's binaries into the text file that the package embeds. Run it by
// "go generate" in the package's directory after every change of that module.
package main

import (
	"fmt"
	"os"

	"github.com/workloadkit/workloadkit/examples/controlplane/internal/bundle"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: generate MODULE-DIRECTORY OUTPUT-FILE")
		os.Exit(2)
	}
	packed, err := bundle.Pack(os.Args[1], bundle.Files())
	if err == nil {
		err = os.WriteFile(os.Args[2], packed, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}
