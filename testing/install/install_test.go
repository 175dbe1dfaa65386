package install_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workloadkit/workloadkit/testing/install"
)

// TestWhatIsNoManifestIsRefused: a text that is not a manifest is refused before any request to the API server.
func TestWhatIsNoManifestIsRefused(t *testing.T) {
	tests := []struct {
		name, manifest, want string
		asCRD                bool
	}{
		{name: "no YAML", manifest: "{", want: "parsing a manifest"},
		{name: "nothing", manifest: "", want: "no kind"},
		{name: "nothing that is a CRD", manifest: "", want: "want that of a CustomResourceDefinition", asCRD: true},
		{
			name: "another kind", manifest: "{apiVersion: v1, kind: Service, metadata: {name: web}}",
			want: `manifest of Service "web": want that of a CustomResourceDefinition`, asCRD: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			do := install.Manifest
			if tt.asCRD {
				do = install.CRD
			}
			if err := do(t.Context(), fake.NewClientBuilder().Build(), []byte(tt.manifest)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want it to say %q", err, tt.want)
			}
		})
	}
}
