package main

// This file is `funid kubernetes`: the manifests with which Kubernetes runs funid, and the page
// about them.

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manifests are for an image named "funet".
//
//go:embed kubernetes.yaml
var manifests string

func kubernetesCommand() *cobra.Command {
	var image string
	c := &cobra.Command{
		Use:   "kubernetes",
		Short: "Print manifests of Kubernetes: a funid on each node, to which pods attach",
		Long: `Print the manifests with which Kubernetes runs a funid on each node: a namespace, a
ConfigMap with its configuration and its peers, and a DaemonSet. Pods attach through the
socket, which they mount. "make image" makes the image. Each node that shall have a
funid needs a line in the peers file, and the label funet:

  kubectl label node NODE funet=true
  funid kubernetes --image REGISTRY/funet:VERSION > funet.yaml   # then write the peers into it
  kubectl apply -f funet.yaml

"funet help kubernetes" has the rest: pods, users, limits, direct ports.`,
		Example: "  funid kubernetes --image registry.example/funet:1.0 > funet.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := manifestsFor(image)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().StringVar(&image, "image", "funet", "name of the image (make image), where the nodes find it")
	return c
}

// manifestsFor returns the manifests with the image's name.
func manifestsFor(image string) (string, error) {
	if image == "" || strings.ContainsAny(image, " \t\r\n\"'#{}[]&*!|>%`,\\") {
		return "", errors.New("--image: use a name such as registry.example/funet:1.0")
	}
	return strings.Replace(manifests, "image: funet\n", "image: "+image+"\n", 1), nil
}
