package child_test

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/workloadkit/workloadkit/testing/child"
)

// A program gets a free port and runs during the test. Stop sends SIGTERM first, and would kill the program only
// after the grace period.
func Example() {
	port, err := child.FreePort(context.Background(), "localhost")
	if err != nil {
		fmt.Println(err)
		return
	}
	program, err := child.Start(exec.Command("sleep", fmt.Sprint(port)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(program.State())
	program.Stop(syscall.SIGTERM, 10*time.Second)
	fmt.Println(program.State())
	// Output:
	// running
	// signal: terminated
}
