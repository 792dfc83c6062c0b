# A balancer's files from a fleet, for servers that Terraform makes itself. Works with OpenTofu, too.
#   terraform init && terraform apply -var 'servers=["10.0.0.11", "10.0.0.12"]'

terraform {
  required_version = ">= 1.3" # startswith()
  required_providers {
    external = {
      source  = "hashicorp/external"
      version = "~> 2.3"
    }
    local = {
      source  = "hashicorp/local"
      version = "~> 2.4"
    }
  }
}

variable "servers" {
  description = "Addresses of the inference servers, such as aws_instance.gpu[*].private_ip."
  type        = list(string)
  default     = ["gpu-0", "gpu-1"]
}

variable "directory" {
  description = "Where the files go."
  type        = string
  default     = "haproxy"
}

# Each entry of the query is one --set of lbgen: a key of the fleet file, and a value in YAML or JSON.
# Keys of clients (env:NAME) are read from the environment of terraform.
data "external" "lbgen" {
  program = ["lbgen", "render", "${path.module}/fleet.yaml", "-t", "haproxy", "--as", "terraform"]
  query = {
    "pools.chat.servers" = jsonencode([for server in var.servers : "${server}:8000"])
  }
}

locals {
  files = data.external.lbgen.result
}

resource "local_file" "plain" {
  for_each        = toset([for path in keys(local.files) : path if !startswith(path, "secrets/")])
  filename        = "${var.directory}/${each.key}"
  content         = local.files[each.key]
  file_permission = "0644"
}

# Terraform's state holds what is in them: keep it as you keep keys.
resource "local_sensitive_file" "secret" {
  for_each             = toset([for path in keys(local.files) : path if startswith(path, "secrets/")])
  filename             = "${var.directory}/${each.key}"
  content              = local.files[each.key]
  file_permission      = "0600"
  directory_permission = "0700"
}
