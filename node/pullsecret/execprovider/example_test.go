package execprovider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/workloadkit/workloadkit/node/pullsecret"
	"github.com/workloadkit/workloadkit/node/pullsecret/execprovider"
)

// An agent asks a provider for credentials. The program of a second provider does not exist.
func Example() {
	ctx := context.Background()
	directory, err := os.MkdirTemp("", "plugins")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(directory) }()
	program := `#!/bin/sh
echo '{"kind": "CredentialProviderResponse", "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
  "cacheKeyType": "Registry", "cacheDuration": "6h",
  "auth": {"*.example.com": {"username": "token", "password": "open sesame"}}}'`
	if err := os.WriteFile(filepath.Join(directory, "example-provider"), []byte(program), 0o700); err != nil {
		panic(err)
	}
	config, err := execprovider.Parse([]byte(`
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: example-provider
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example.com"]
  defaultCacheDuration: 12h
- name: other-provider
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example.com/shop"]
  defaultCacheDuration: 12h
`))
	if err != nil {
		panic(err)
	}
	providers, err := execprovider.New(config, directory, execprovider.Options{
		Environment: execprovider.Inherit(os.Environ(), "PATH", "HOME", "HTTPS_PROXY", "NO_PROXY"),
	})
	if err != nil {
		panic(err)
	}

	image := pullsecret.Image{Host: "registry.example.com", Path: "shop/app"}
	keyring, problems := providers.For(ctx, image)
	for _, credential := range keyring.For(image) {
		fmt.Println("try the", credential)
	}
	for _, problem := range problems {
		fmt.Println(problem.Code, problem.Object, problem.Detail)
	}

	// Output:
	// try the password for *.example.com from CredentialProvider example-provider
	// UnsafeProgram CredentialProvider other-provider the program cannot be found
}
