# A stand-in of our own: what becomes of the edge map, and that no log_images takes it.
class LatentDiffusionSRTextWTWithEdge:
    def get_input(self, result, edge_map):
        result.append(edge_map)
        return result
