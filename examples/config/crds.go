// Package config holds the manifests that install the reference controllers, for commands and tests that need them
// without a checkout.
package config

import "embed"

// CRDs are the CustomResourceDefinitions, in the folder crd.
//
//go:embed crd/*.yaml
var CRDs embed.FS
