package manager

import "testing"

func TestHasResizeSubresource(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.36.3": true, "v1.32.0": true, "v1.32+gke.1": true, "1.33": true, "v1.31.9": false, "v1.32.0-alpha.1": true,
		"v1.9.0": false, "v2.0.0": true, "": false, "unknown": false,
	} {
		if got := hasResizeSubresource(version); got != want {
			t.Errorf("U-12: hasResizeSubresource(%q) = %v, want %v", version, got, want)
		}
	}
}
