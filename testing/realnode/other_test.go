//go:build !linux

package realnode_test

import (
	"os"
	"testing"
)

func TestNode(t *testing.T) {
	if os.Getenv("WORKLOADKIT_NODE") == "" {
		t.Skip("starts a real kubelet, as root: run make test-node on Linux")
	}
	t.Fatal("a real node cannot run here; missing:\n  Linux: a kubelet and containers need its kernel")
}
