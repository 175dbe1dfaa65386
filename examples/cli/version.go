package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/yaml"
)

// versions is the output of the command "version".
type versions struct {
	Client  string `json:"clientVersion"`
	Kubectl string `json:"kubectlVersion"`
	Go      string `json:"goVersion"`
	Server  string `json:"serverVersion,omitempty"`
}

// newVersion returns the command "version". Without a server, or with --client, the command sends no request.
func newVersion(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	var client bool
	var output string
	cmd := &cobra.Command{
		Use:               "version",
		Short:             "Print the versions of this command, of its kubectl and of the server",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&client, "client", false, "If true, shows client version only (no server required).")
	cmd.Flags().StringVarP(&output, "output", "o", "", "One of 'yaml' or 'json'.")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := built()
		var failed error
		if !client {
			v.Server, failed = server(f)
		}
		text, err := v.text(output)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprint(streams.Out, text); err != nil {
			return err
		}
		return failed
	}
	return cmd
}

func server(f cmdutil.Factory) (string, error) {
	finder, err := f.ToDiscoveryClient()
	if err != nil {
		return "", err
	}
	info, err := finder.ServerVersion()
	if err != nil {
		return "", err
	}
	return info.GitVersion, nil
}

// built reads the versions from the binary: the version of the module, or the commit, and the version of kubectl.
func built() versions {
	v := versions{Client: "unknown", Kubectl: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Client = info.Main.Version; v.Client == "" {
		v.Client = "(devel)"
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubectl" {
			v.Kubectl = module.Version
		}
	}
	return v
}

func (v versions) text(format string) (string, error) {
	switch format {
	case "json":
		raw, err := json.MarshalIndent(v, "", "  ")
		return string(raw) + "\n", err
	case "yaml":
		raw, err := yaml.Marshal(v)
		return string(raw), err
	case "":
		text := fmt.Sprintf("Client Version: %s\nkubectl Version: %s\n", v.Client, v.Kubectl)
		if v.Server != "" {
			text += fmt.Sprintf("Server Version: %s\n", v.Server)
		}
		return text, nil
	}
	return "", fmt.Errorf("--output: %q is not json or yaml", format)
}
