package child

import (
	"context"
	"fmt"
	"net"
	"os"
)

// FreePort asks the kernel for a free port on an address of this machine. Another process may take the port before the
// caller uses the port.
func FreePort(ctx context.Context, address string) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port of %s: %w", address, err)
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// EndOfLog returns the last 4,000 bytes of a file, or the error if the file cannot be read.
func EndOfLog(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const enough = 4000
	return string(raw[max(0, len(raw)-enough):])
}
